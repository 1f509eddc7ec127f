//! Caps the waiting requests of each client and key, so that no client or key fills the shared
//! queue.
//!
//! The cap follows the number of free positions, like the dynamic thresholds of Choudhury and Hahne
//! (IEEE/ACM Transactions on Networking 6(2), 1998). A client that is alone may take most
//! positions, but some always stay free for other clients.

use crate::ids::LimitId;
use crate::policy::Bill;
use hashbrown::HashMap;
use std::sync::Arc;

/// One client or key may hold this many times the free positions.
const TIMES_FREE: usize = 4;

/// A client if there is no limit, or a key of the limit.
type QuotaHolder = (Option<LimitId>, Arc<str>);

/// The number of positions that each client and key holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionCap(HashMap<QuotaHolder, usize>);

/// The client and the keys of a request. Requests without a client's name have no cap by client.
fn parties(client: &Arc<str>, bill: &Bill) -> impl Iterator<Item = QuotaHolder> {
    let client = (!client.is_empty()).then(|| (None, Arc::clone(client)));
    client.into_iter().chain(bill.keyed().map(|charge| (Some(charge.limit), Arc::clone(&charge.key))))
}

impl AdmissionCap {
    /// Whether a request may have one of the `free` positions.
    pub(crate) fn has_room(&self, free: usize, client: &Arc<str>, bill: &Bill) -> bool {
        let max = free.saturating_mul(TIMES_FREE);
        parties(client, bill).all(|party| self.0.get(&party).is_none_or(|count| *count < max))
    }

    /// The number of positions that a client holds.
    pub(crate) fn positions_of(&self, client: &Arc<str>) -> usize {
        self.0.get(&(None, Arc::clone(client))).copied().unwrap_or(0)
    }

    pub(crate) fn join(&mut self, client: &Arc<str>, bill: &Bill) {
        parties(client, bill).for_each(|party| *self.0.entry(party).or_default() += 1);
    }

    pub(crate) fn leave(&mut self, client: &Arc<str>, bill: &Bill) {
        for party in parties(client, bill) {
            let count = self.0.get_mut(&party).expect("a request that leaves has joined");
            *count -= 1;
            if *count == 0 {
                self.0.remove(&party);
            }
        }
    }
}
