//! Checks that the account of each call is one that may make it.

use super::Violation;
use super::buckets::Buckets;
use crate::incident::Incident;
use crate::outcome::{Granted, Outcome, Request};
use crate::world::World;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};

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
