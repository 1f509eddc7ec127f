//! How many wait for each client and key, so that none of them fills the line that all share.
//!
//! The bound of each follows what is free, as the dynamic thresholds of Choudhury and Hahne (IEEE/ACM Transactions on Networking
//! 6(2), 1998): whoever is alone may have most of the places, and there are always some for others.

use crate::ids::LimitId;
use crate::policy::Bill;
use hashbrown::HashMap;
use std::sync::Arc;

/// How many times what is free one client or key may take.
const TIMES_FREE: usize = 4;

/// Whom places are counted for: a client, or a key of a limit.
type Party = (Option<LimitId>, Arc<str>);

/// Places that are taken, by client and key.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionCap(HashMap<Party, usize>);

/// Nobody is counted for the client without a name: it is whoever does not say.
fn parties(client: &Arc<str>, bill: &Bill) -> impl Iterator<Item = Party> {
    let client = (!client.is_empty()).then(|| (None, Arc::clone(client)));
    client.into_iter().chain(bill.keyed().map(|charge| (Some(charge.limit), Arc::clone(&charge.key))))
}

impl AdmissionCap {
    /// Whether there is a place for one more, of so many that are free.
    pub(crate) fn has_room(&self, free: usize, client: &Arc<str>, bill: &Bill) -> bool {
        let most = free.saturating_mul(TIMES_FREE);
        parties(client, bill).all(|party| self.0.get(&party).is_none_or(|count| *count < most))
    }

    pub(crate) fn join(&mut self, client: &Arc<str>, bill: &Bill) {
        parties(client, bill).for_each(|party| *self.0.entry(party).or_default() += 1);
    }

    pub(crate) fn leave(&mut self, client: &Arc<str>, bill: &Bill) {
        for party in parties(client, bill) {
            let count = self.0.get_mut(&party).expect("who leaves has joined");
            *count -= 1;
            if *count == 0 {
                self.0.remove(&party);
            }
        }
    }
}
