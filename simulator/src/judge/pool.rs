//! Checks that the account of each call is one that may make it.

use super::Violation;
use super::buckets::Buckets;
use crate::incident::Incident;
use crate::outcome::{Granted, Outcome, Request};
use crate::world::World;
use rampmeter_policy::spec::{AccountSpec, ClassSpec};
use rampmeter_protocol::labels::ACCOUNT;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};

/// The accounts of a world; none if it has only one, without a name.
pub(super) struct Pool<'a> {
    accounts: &'a [AccountSpec],
    classes: &'a [ClassSpec],
    /// The account that each worker's requests name.
    named: Vec<Option<String>>,
}

impl<'a> Pool<'a> {
    pub(super) fn of(world: &'a World) -> Self {
        let named = |worker| world.labels_of(worker).get(ACCOUNT).map(str::to_owned);
        let named = (0..world.workers()).map(named).collect();
        Pool { accounts: &world.resource.accounts, classes: &world.resource.classes, named }
    }

    /// Returns the accounts that may make the call of a request; `[None]` without a pool.
    pub(super) fn accounts_for(&self, request: &Request) -> Vec<Option<usize>> {
        match self.accounts {
            [] => vec![None],
            accounts => (0..accounts.len()).map(Some).filter(|account| self.may_make(*account, request)).collect(),
        }
    }

    pub(super) fn may_make(&self, account: Option<usize>, request: &Request) -> bool {
        account.map_or(self.accounts.is_empty(), |account| self.objection(account, request).is_none())
    }

    /// Returns the number of accounts; one without a pool.
    pub(super) fn size(&self) -> usize {
        self.accounts.len().max(1)
    }

    fn objection(&self, account: usize, request: &Request) -> Option<&'static str> {
        let AccountSpec { name, classes, .. } = &self.accounts[account];
        let class = self.classes.get(request.class.index()).map(|class| &class.name);
        match () {
            () if request.not.contains(name) => Some("which the request excludes"),
            () if self.named[request.worker].as_ref().is_some_and(|named| **named != **name) => {
                Some("though the request names another")
            }
            () if !classes.is_empty() && !classes.iter().any(|served| Some(served) == class) => {
                Some("which does not serve its class")
            }
            () => None,
        }
    }
}

/// Checks the accounts of all grants and calls.
pub(super) fn check_accounts(world: &World, buckets: &Buckets<'_>, outcome: &Outcome) -> Result<(), Violation> {
    let pool = &buckets.pool;
    if pool.accounts.is_empty() {
        return Ok(());
    }
    let convict = |worker, account: Option<usize>, at, objection| {
        let account = account.map_or(String::new(), |account| pool.accounts[account].name.to_string());
        Err(Violation::Account { worker, account, at, objection })
    };
    for request in &outcome.requests {
        let Some(Granted { at, account, .. }) = request.granted else { continue };
        let objection = match account {
            Some(account) => pool.objection(account, request).or_else(|| drained(world, buckets, account, request)),
            None => Some("which is none"),
        };
        if let Some(objection) = objection {
            return convict(request.worker, account, at, objection);
        }
    }
    for call in outcome.fleets.iter().flat_map(|fleet| &fleet.calls) {
        let granted = call.request.and_then(|request| outcome.requests[request].granted);
        if granted.is_some_and(|granted| granted.account != call.account) {
            return convict(call.worker, call.account, call.at, "but was granted another");
        }
    }
    Ok(())
}

/// Objects to a start at an account that an operator had drained before. Calls that take nothing of
/// it may start there if all accounts rest. A scheduler that dies may forget the order.
fn drained(world: &World, buckets: &Buckets<'_>, account: usize, request: &Request) -> Option<&'static str> {
    let Granted { at, start, .. } = request.granted?;
    let incidents = || world.incidents.iter().map(|(at, incident)| (*at, incident));
    let rests = |account: usize| {
        let name = &buckets.pool.accounts[account].name;
        let is_it = |from: Time, drained: &Name, span: Span| *drained == *name && from < at && start < from + span;
        incidents().any(|(from, incident)| matches!(incident, Incident::Drain(it, span) if is_it(from, it, *span)))
    };
    let dies = |incident: &Incident| matches!(incident, Incident::Crash | Incident::CutOff(_));
    if !rests(account) || incidents().any(|(_, incident)| dies(incident)) {
        return None;
    }
    let has_other = || {
        world.upstream.outages.is_empty()
            && buckets.pool.accounts_for(request).into_iter().flatten().any(|other| !rests(other))
    };
    (buckets.takes_of_account(account, request) || has_other()).then_some("which is drained")
}
