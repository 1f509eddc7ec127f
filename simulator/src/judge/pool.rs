//! The accounts that may make a call.

use crate::outcome::Request;
use crate::world::World;
use rampmeter_policy::spec::{AccountSpec, ClassSpec};
use rampmeter_protocol::labels::ACCOUNT;

/// The accounts of a world; none if it has only one, without a name.
pub(super) struct Pool<'a> {
    pub(super) accounts: &'a [AccountSpec],
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

    /// Returns why the account may not make the call of a request.
    pub(super) fn objection(&self, account: usize, request: &Request) -> Option<&'static str> {
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
