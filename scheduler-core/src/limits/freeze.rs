//! A pause of one limit, taken from the upstream's own word.

use super::timeline::Key;
use crate::ledger::KeyCharge;
use crate::scheduler::Scheduler;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};

/// How long others wait for what the first call behind a freeze is told, if its worker does not say.
const PATIENCE: Span = Span::from_secs(2);

/// Most freezes of keys that a successor is told of, those that end last: of others, its first call learns.
const MOST_TOLD: usize = 256;

/// Nobody starts before its end, and then one alone, the probe: the others follow once that was not told 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freeze {
    until: Time,
    probe: Option<Key>,
}

impl Freeze {
    /// A freeze until then.
    pub(crate) fn new(until: Time) -> Self {
        Freeze { until, probe: None }
    }

    /// When it ends.
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// From when on one more may start.
    pub(crate) fn opens(&self) -> Time {
        self.probe.map_or(self.until, |probe| probe.at + PATIENCE)
    }

    /// Notes a start: the first behind the end is the probe.
    pub(crate) fn note_start(&mut self, key: Key) {
        if self.probe.is_none() && key.at >= self.until {
            self.probe = Some(key);
        }
    }

    /// Notes that a start was taken back.
    pub(crate) fn note_return(&mut self, key: Key) {
        if self.probe == Some(key) {
            self.probe = None;
        }
    }

    /// Whether `key` is the probe.
    pub(crate) fn is_probed_by(&self, key: Key) -> bool {
        self.probe == Some(key)
    }

    /// Whether nobody has come to probe it for so long that nobody may.
    pub(crate) fn is_forgotten(&self, now: Time) -> bool {
        self.probe.is_none() && self.until + PATIENCE <= now
    }

    /// Whether nobody says how the probe went.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.probe.is_some_and(|probe| probe.at + PATIENCE <= now)
    }
}

/// A freeze, or a quota that is spent by the upstream's own word, as a successor has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreezeMark {
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
    pub(crate) fn freeze_marks(&mut self, now: Time) -> Vec<FreezeMark> {
        let limits = self.resource.limits();
        let mark = |limit: &Name, key: Option<&str>, until: Time, spent: bool| {
            let (limit, key) = (limit.clone(), key.map(str::to_owned));
            FreezeMark { limit, key, nanos: until.since(now).nanos(), spent }
        };
        let shared = self.ledger.books().flat_map(|book| {
            let frozen = book.bucket.freeze().map(|freeze| mark(&book.limit.spec().name, None, freeze.until(), false));
            let spent = book.spent_until(now).map(|until| mark(&book.limit.spec().name, None, until, true));
            frozen.into_iter().chain(spent)
        });
        let shared: Vec<FreezeMark> = shared.collect();
        let keys = self.ledger.keys.frozen(now).take(MOST_TOLD);
        let keyed =
            keys.map(|(until, known)| mark(&limits[known.limit.index()].spec().name, Some(&*known.key), until, false));
        shared.into_iter().chain(keyed).collect()
    }

    /// Goes on with a freeze that a predecessor has told of at `then`: one call goes first behind it.
    pub(crate) fn restore_freeze(&mut self, then: Time, mark: &FreezeMark) {
        let Some(limit) = self.resource.limit(&mark.limit) else { return };
        let until = then + Span::from_nanos(mark.nanos);
        match (&mark.key, self.resource.limits()[limit.index()].is_keyed()) {
            (None, false) if mark.spent => self.ledger.book_mut(limit).spent = until,
            (None, false) => self.ledger.book_mut(limit).bucket.freeze_until(until),
            (Some(key), true) => {
                let charge = KeyCharge { limit, key: key.as_str().into(), amount: Amount::ZERO };
                self.ledger.keys.touch(then, &charge, |bucket, _| bucket.freeze_until(until));
            }
            (Some(_), false) | (None, true) => {}
        }
    }
}
