//! Freezes and spent quotas, as a successor has to know them.

use crate::policy::KeyCharge;
use crate::scheduler::Scheduler;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};

/// Most freezes of keys that a successor is told of, those that end last: of others, its first call learns.
const MOST_TOLD: usize = 256;

/// A freeze, or a quota that is spent by the upstream's own word, as a successor has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreezeSnapshot {
    /// The limit.
    pub limit: Name,
    /// The key that it is for, where that has a bucket of its own.
    pub key: Option<String>,
    /// Until when, in nanoseconds from the snapshot on.
    pub nanos: u64,
    /// Whether it is a spent quota, which nobody waits for.
    pub spent: bool,
}

impl<R: Clone> Scheduler<R> {
    /// All freezes whose probes are not known to be served, and quotas that are spent.
    pub(crate) fn freeze_snapshots(&mut self, now: Time) -> Vec<FreezeSnapshot> {
        let limits = self.resource.limits();
        let mark = |limit: &Name, key: Option<&str>, until: Time, spent: bool| {
            let (limit, key) = (limit.clone(), key.map(str::to_owned));
            FreezeSnapshot { limit, key, nanos: until.since(now).nanos(), spent }
        };
        let shared = self.ledger.adaptive_limits().flat_map(|book| {
            let frozen = book.bucket.freeze().map(|freeze| mark(&book.limit.spec().name, None, freeze.until(), false));
            let spent = book.spent_until(now).map(|until| mark(&book.limit.spec().name, None, until, true));
            frozen.into_iter().chain(spent)
        });
        let shared: Vec<FreezeSnapshot> = shared.collect();
        let keys = self.ledger.keys.frozen(now).take(MOST_TOLD);
        let keyed =
            keys.map(|(until, known)| mark(&limits[known.limit.index()].spec().name, Some(&*known.key), until, false));
        shared.into_iter().chain(keyed).collect()
    }

    /// Goes on with a freeze that a predecessor has told of at `then`: one call goes first behind it.
    pub(crate) fn restore_freeze(&mut self, then: Time, mark: &FreezeSnapshot) {
        let Some(limit) = self.resource.limit(&mark.limit) else { return };
        let until = then + Span::from_nanos(mark.nanos);
        match (&mark.key, self.resource.limits()[limit.index()].is_keyed()) {
            (None, false) if mark.spent => self.ledger.adaptive_mut(limit).spent = until,
            (None, false) => self.ledger.adaptive_mut(limit).bucket.freeze_until(until),
            (Some(key), true) => {
                let charge = KeyCharge { limit, key: key.as_str().into(), amount: Amount::ZERO };
                self.ledger.keys.update(then, &charge, |bucket, _| bucket.freeze_until(until));
            }
            (Some(_), false) | (None, true) => {}
        }
    }
}
