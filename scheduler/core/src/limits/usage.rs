//! The record of a bucket for a successor.
//!
//! Usage that has left a sliding window counts again if the window becomes longer. Its amount is
//! not stored, so it counts as the most that the shorter window can have admitted, until it would
//! have left the longer one. Forgotten keys count as used up.

use crate::array_form::stored_as_array;
use crate::limits::pending_debits::DebitSnapshot;
use crate::offset::Offset;
use rampmeter_policy::Limit;
use rampmeter_policy::arithmetic::{Credit, Rate};
use rampmeter_protocol::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// The most blocks of one limit that a snapshot holds.
pub(crate) const MAX_BLOCKS: usize = 32;
/// This many of the nearest blocks stay unmerged.
const EXACT_BLOCKS: usize = MAX_BLOCKS / 2;
/// Two schedulers' wall clocks agree if they differ by at most this.
pub(crate) const MAX_CLOCK_SKEW: Span = Span::from_secs(1);
/// Clocks that agree also differ by at most one part in this many of the period.
const MAX_CLOCK_SKEW_PART: u64 = 10;

/// `credit` is used from `from` on and before `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsageBlock {
    pub(crate) from: Time,
    pub(crate) until: Time,
    pub(crate) credit: Credit,
}

/// The usage of a limit that counts calls: the state of a bucket without tokens. Offsets are
/// relative to the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedUsage {
    /// The wall clock at the snapshot, by its writer's reckoning, in nanoseconds since 1970.
    pub unix_nanos: u64,
    /// Our own usage, by the time in which it counts.
    pub spans: Vec<UsageSpan>,
    /// Our own usage by calls, if those in flight count and some are promised: the place of each
    /// from its start until the end of its lease.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub places: Vec<UsageSpan>,
    /// Whether more may be used than is known: all then counts as used by a call at the snapshot.
    #[serde(skip)]
    pub doubted: bool,
    /// The upstream's reports on it, if there are any.
    #[serde(rename = "told", skip_serializing_if = "Option::is_none", default)]
    pub reported: Option<ReportedUsage>,
}

/// The upstream's reports on windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedUsage {
    /// The bounds of a time at which one of its windows ends.
    #[serde(rename = "ends", skip_serializing_if = "Option::is_none", default)]
    pub window_ends: Option<(Offset, Offset)>,
}

/// An amount that counts in this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct UsageSpan {
    /// Its start.
    pub from: Offset,
    /// Its end.
    pub until: Offset,
    /// The amount, in millionths.
    pub micros: u64,
}
stored_as_array!(UsageSpan: from, until, micros);

/// Condenses consecutive blocks to [`MAX_BLOCKS`]. A merged block uses as much as its largest part.
pub(crate) fn condensed(mut blocks: Vec<UsageBlock>) -> Vec<UsageBlock> {
    blocks.retain(|block| block.credit > Credit::ZERO);
    if blocks.len() <= MAX_BLOCKS {
        return blocks;
    }
    let rest = blocks.split_off(EXACT_BLOCKS);
    let each = rest.len().div_ceil(MAX_BLOCKS - EXACT_BLOCKS);
    let merged = |one: UsageBlock, next: UsageBlock| UsageBlock {
        from: one.from,
        until: one.until.max(next.until),
        credit: one.credit.max(next.credit),
    };
    blocks.extend(rest.chunks(each).filter_map(|several| several.iter().copied().reduce(merged)));
    blocks
}

pub(crate) fn to_spans(now: Time, rate: &Rate, blocks: &[UsageBlock]) -> Vec<UsageSpan> {
    let span = |block: &UsageBlock| UsageSpan {
        from: Offset::between(now, block.from),
        until: Offset::between(now, block.until),
        micros: rate.micros_up(block.credit),
    };
    blocks.iter().map(span).collect()
}

/// Turns the offsets of a predecessor's record into times for a reader at `then`, the latest time
/// at which the record was written.
///
/// Fixed windows follow the wall clock if both clocks agree and the upstream reported no window.
/// All else follows elapsed time: usage ends as late as it can, and begins as early.
#[derive(Clone, Copy)]
pub(crate) struct RecordTimes {
    then: Time,
    /// The nanoseconds by which the wall clock makes times later.
    ahead: i64,
    /// By how much times may be earlier.
    earlier: Span,
}

impl RecordTimes {
    /// `unix_nanos` is the wall clock here at `then`.
    pub(crate) fn of(then: Time, unix_nanos: u64, limit: &Limit, usage: &CountedUsage) -> Self {
        let lag = i64::try_from(i128::from(unix_nanos) - i128::from(usage.unix_nanos)).unwrap_or(i64::MAX);
        let skew = MAX_CLOCK_SKEW.nanos().min(limit.spec().period.nanos() / MAX_CLOCK_SKEW_PART) as i64;
        let is_reported = usage.reported.as_ref().is_some_and(|reported| reported.window_ends.is_some());
        let by_wall = limit.alignment().is_some() && !is_reported && lag.unsigned_abs() <= skew as u64;
        match by_wall {
            true => RecordTimes { then, ahead: -lag, earlier: Span::ZERO },
            false => RecordTimes { then, ahead: 0, earlier: earlier(lag, skew) },
        }
    }

    /// Returns the latest possible time.
    pub(crate) fn latest(&self, offset: Offset) -> Time {
        offset.later_by(self.ahead).after(self.then)
    }

    /// Returns the earliest possible time.
    pub(crate) fn earliest(&self, offset: Offset) -> Time {
        self.latest(offset) - self.earlier
    }

    pub(crate) fn blocks(&self, rate: &Rate, usage: &CountedUsage) -> Vec<UsageBlock> {
        let mut blocks = self.latest_blocks(rate, &usage.spans);
        begin_earlier(&mut blocks, self.then, self.earlier);
        blocks.retain(|block| block.from < block.until);
        blocks
    }

    pub(crate) fn latest_blocks(&self, rate: &Rate, spans: &[UsageSpan]) -> Vec<UsageBlock> {
        let block = |span: &UsageSpan| UsageBlock {
            from: self.latest(span.from),
            until: self.latest(span.until),
            credit: rate.credit_of_micros(i128::from(span.micros)),
        };
        spans.iter().map(block).collect()
    }
}

/// Returns by how much a record may have been written before `then`, if the wall clock there was
/// `lag` nanoseconds behind the one here.
///
/// A reader on another machine subtracts the allowed difference of clocks when it computes `then`.
/// So clocks differ by at most the lag, and by at most `skew`. A lag below −`skew` shows that a
/// clock was set, so that nothing is known.
fn earlier(lag: i64, skew: i64) -> Span {
    if lag < -skew {
        return Span::from_nanos(u64::MAX);
    }
    let lag = lag.max(0);
    Span::from_nanos(lag.saturating_add(lag.min(skew)) as u64)
}

/// Moves every rise of usage after `then` to an earlier time.
fn begin_earlier(blocks: &mut [UsageBlock], then: Time, earlier: Span) {
    let mut before: Option<&mut UsageBlock> = None;
    for block in blocks {
        let joined = before.filter(|before| before.until == block.from);
        if joined.as_ref().is_none_or(|before| before.credit < block.credit) {
            block.from = (block.from - earlier).max(then);
            if let Some(before) = joined {
                before.until = block.from;
            }
        }
        before = Some(block);
    }
}

/// Starts this soon after a checkpoint are near, so a short silence of the store stops no request.
pub(crate) const NEAR: Span = Span::from_millis(2500);

/// The state of a bucket, from which a bucket of any kind can continue. Each kind reads what it
/// understands, because the algorithm of a limit may have changed.
#[derive(Clone, Debug)]
pub(crate) struct BucketRecord {
    pub(crate) micros: i128,
    /// What a token bucket has promised.
    pub(crate) pending_debits: Vec<DebitSnapshot>,
    pub(crate) usage: Option<CountedUsage>,
    /// How much more a token bucket could have held, and how long ago; less each time.
    pub(crate) rooms: Vec<(Span, u64)>,
}

impl BucketRecord {
    /// Creates the record of a key, which lists no promises.
    pub(crate) fn of_key(micros: i64, usage: Option<&CountedUsage>) -> Self {
        BucketRecord { micros: micros.into(), pending_debits: Vec::new(), usage: usage.cloned(), rooms: Vec::new() }
    }

    /// Returns the level in 64 bits. A level below that range becomes the lowest one.
    pub(crate) fn stored_micros(&self) -> i64 {
        i64::try_from(self.micros).unwrap_or(i64::MIN)
    }

    /// Converts the record of a key for a limit with another rate than `was`. Of a key's promises,
    /// the record implies only that all start before the level is above zero. Until then, the
    /// upstream may be full and lose what a faster rate refills.
    pub(crate) fn after_rate(mut self, was: &Rate, limit: &Limit, then: Time) -> Self {
        let level = limit.rate().credit_of_micros(self.micros);
        let paid = paid_at(was, then, was.credit_of_micros(self.micros));
        self.micros = limit.rate().micros(level_when_paid(limit, then, level, paid));
        self
    }
}

/// Returns when a debt is paid; `None` if the level is not below zero.
pub(super) fn paid_at(rate: &Rate, now: Time, level: Credit) -> Option<Time> {
    let paid_in = u64::try_from(rate.nanos_of(-level)).unwrap_or(u64::MAX).saturating_add(1);
    (level < Credit::ZERO).then(|| now + Span::from_nanos(paid_in))
}

/// Returns a successor's level: promises until `last` are paid, and nothing else is granted before.
pub(super) fn level_when_paid(limit: &Limit, now: Time, level: Credit, last: Option<Time>) -> Credit {
    last.map_or(level, |last| level.min(-limit.rate().refill_within(last.since(now))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::spec::LimitSpec;
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::name::Name;

    /// This many consecutive blocks of a second, of which each third uses twice as much.
    fn blocks(count: u64) -> Vec<UsageBlock> {
        let name = |name| Name::new(name).unwrap();
        let spec = LimitSpec::new(name("few"), name("requests"), Amount::ONE, Span::from_secs(60));
        let one = Limit::new(&spec, &[]).full();
        let at = |second| Time::ORIGIN + Span::from_secs(second);
        let block = |second: u64| UsageBlock {
            from: at(second),
            until: at(second + 1),
            credit: if second.is_multiple_of(3) { one + one } else { one },
        };
        (0..count).map(block).collect()
    }

    #[test]
    fn beyond_the_bound_far_blocks_are_merged_and_use_no_less() {
        assert_eq!(condensed(blocks(32)), blocks(32));
        let all = blocks(16 + 160);
        let condensed = condensed(all.clone());
        assert_eq!((condensed.len(), &condensed[..16]), (MAX_BLOCKS, &all[..16]));
        for block in all {
            let covers = |other: &&UsageBlock| other.from <= block.from && block.until <= other.until;
            assert!(condensed.iter().find(covers).unwrap().credit >= block.credit, "{block:?}");
        }
    }

    #[test]
    fn a_level_beyond_64_bits_is_stored_as_the_lowest() {
        let stored = |micros| BucketRecord { micros, ..BucketRecord::of_key(0, None) }.stored_micros();
        let lowest = i128::from(i64::MIN);
        assert_eq!([-5, lowest, lowest - 1, i128::MIN].map(stored), [-5, i64::MIN, i64::MIN, i64::MIN]);
    }
}
