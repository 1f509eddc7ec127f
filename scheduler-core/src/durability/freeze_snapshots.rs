//! Freezes and spent quotas in a snapshot.

use crate::policy::{KeyCharge, Limit};
use crate::scheduler::parts::RecordedParts;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};

/// The largest number of key freezes in a snapshot; those that end last are kept.
const MAX_FREEZES: usize = 256;

/// A freeze, or a quota that the upstream declared spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreezeSnapshot {
    /// The limit.
    pub limit: Name,
    /// The key, if the limit has buckets by key.
    pub key: Option<String>,
    /// From the snapshot to the end.
    pub ends_in: Span,
    /// Whether it is a spent quota, for which no request waits.
    pub spent: bool,
    /// Whether an operator ordered it.
    pub ordered: bool,
}

impl<R> RecordedParts<'_, R> {
    /// All freezes that no served probe has ended, and all spent quotas.
    pub(crate) fn freeze_snapshots(&mut self, now: Time) -> Vec<FreezeSnapshot> {
        let snapshot = |limit: &Limit, key: Option<&str>, until: Time, spent: bool| {
            let (limit, key) = (limit.spec().name.clone(), key.map(str::to_owned));
            FreezeSnapshot { limit, key, ends_in: until.since(now), spent, ordered: false }
        };
        let shared = self.ledger.adaptive_limits().flat_map(|adaptive| {
            let frozen = adaptive.bucket().freeze().map(|freeze| FreezeSnapshot {
                ordered: freeze.is_ordered(),
                ..snapshot(adaptive.limit(), None, freeze.until(), false)
            });
            let spent = adaptive.spent_until(now).map(|until| snapshot(adaptive.limit(), None, until, true));
            frozen.into_iter().chain(spent)
        });
        let shared: Vec<FreezeSnapshot> = shared.collect();
        let keys = self.ledger.frozen_keys(now).take(MAX_FREEZES);
        let keyed = keys.map(|(until, known)| snapshot(&self.resource[known.limit], Some(&*known.key), until, false));
        shared.into_iter().chain(keyed).collect()
    }

    /// Restores a freeze of the snapshot at `then`. A single probe starts after its end.
    pub(crate) fn restore_freeze(&mut self, then: Time, snapshot: &FreezeSnapshot) {
        let Some(limit) = self.resource.limit(&snapshot.limit) else { return };
        let until = then + snapshot.ends_in;
        match (&snapshot.key, self.resource[limit].is_keyed()) {
            (None, false) if snapshot.spent => self.ledger.adaptive_mut(limit).mark_spent_until(until),
            (None, false) if snapshot.ordered => {
                self.ledger.freeze_by_order(limit, until, until);
            }
            (None, false) => self.ledger.adaptive_mut(limit).update(|bucket, _| bucket.freeze_until(until)),
            (Some(key), true) => {
                let charge = KeyCharge { limit, key: key.as_str().into(), amount: Amount::ZERO };
                self.ledger.restore_key_freeze(then, &charge, until);
            }
            (Some(_), false) | (None, true) => {}
        }
    }
}
