//! What a successor learns of a bucket.

use super::pending_debits::DebitSnapshot;
use super::usage::CountedUsage;
use crate::arithmetic::{Credit, Rate};
use crate::policy::Limit;
use rampmeter_protocol::time::{Span, Time};

/// Starts this soon after a checkpoint are near, so that a short silence of the store stops no
/// request.
pub(crate) const NEAR: Span = Span::from_millis(2500);

/// The state of a bucket, from which a bucket of any kind can continue. Each kind reads what it
/// understands, because the algorithm of a limit may have changed.
#[derive(Clone, Debug)]
pub(crate) struct BucketRecord {
    /// The level in millionths.
    pub(crate) micros: i128,
    /// What a token bucket has promised.
    pub(crate) pending_debits: Vec<DebitSnapshot>,
    /// The usage, if calls are counted.
    pub(crate) usage: Option<CountedUsage>,
    /// How much more a token bucket could have held, in millionths, and how long ago: for each time,
    /// less than ever before.
    pub(crate) rooms: Vec<(Span, u64)>,
}

/// The promises of a bucket that a record lists one by one: those with the latest starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedStarts {
    /// The earliest of them; [`Time::NEVER`] if there are none.
    pub(crate) first: Time,
    /// What they cost.
    pub(crate) credit: Credit,
}

impl BucketRecord {
    /// The record of a key, which lists no promises.
    pub(crate) fn of_key(micros: i64, usage: Option<&CountedUsage>) -> Self {
        BucketRecord { micros: micros.into(), pending_debits: Vec::new(), usage: usage.cloned(), rooms: Vec::new() }
    }

    /// The level in 64 bits. A level below that range becomes the lowest one.
    pub(crate) fn stored_micros(&self) -> i64 {
        i64::try_from(self.micros).unwrap_or(i64::MIN)
    }

    /// This record of a key for a limit with another rate than `was`.
    ///
    /// A key's record says of its promises only that all start before the level is above zero.
    /// Until then, the upstream may be full and lose what a faster rate refills.
    pub(crate) fn after_rate(mut self, was: &Rate, limit: &Limit, then: Time) -> Self {
        let level = limit.rate().credit_of_micros(self.micros);
        let paid = paid_at(was, then, was.credit_of_micros(self.micros));
        self.micros = limit.rate().micros(level_when_paid(limit, then, level, paid));
        self
    }
}

/// When a debt is paid; none if the level is not below zero.
pub(super) fn paid_at(rate: &Rate, now: Time, level: Credit) -> Option<Time> {
    let paid_in = u64::try_from(rate.nanos_of(-level)).unwrap_or(u64::MAX).saturating_add(1);
    (level < Credit::ZERO).then(|| now + Span::from_nanos(paid_in))
}

/// The level for a successor: all promises until `last` are paid, and nothing else is granted
/// before.
pub(super) fn level_when_paid(limit: &Limit, now: Time, level: Credit, last: Option<Time>) -> Credit {
    last.map_or(level, |last| level.min(-limit.rate().refill_within(last.since(now))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_beyond_64_bits_is_stored_as_the_lowest() {
        let stored = |micros| BucketRecord { micros, ..BucketRecord::of_key(0, None) }.stored_micros();
        let lowest = i128::from(i64::MIN);
        assert_eq!([-5, lowest, lowest - 1, i128::MIN].map(stored), [-5, i64::MIN, i64::MIN, i64::MIN]);
    }
}
