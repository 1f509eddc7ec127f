//! What is taken of a limit that counts, as far as a successor has to know it.

use crate::arithmetic::{Credit, Rate};
use rampmeter_protocol::time::{Span, Time};

/// Most blocks of one limit that a successor is told of.
pub(crate) const MOST_BLOCKS: usize = 32;
/// The nearest are told one by one.
const EXACT_BLOCKS: usize = MOST_BLOCKS / 2;
/// How far two reckonings of wall time may be apart to be taken for the same, which is a part of the period at most.
const SAME_TIME: Span = Span::from_secs(1);
const SAME_TIME_PART: u64 = 10;

/// So much is taken by whatever starts from `from` on and before `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsageBlock {
    pub(crate) from: Time,
    pub(crate) until: Time,
    pub(crate) credit: Credit,
}

/// What is taken of a limit that counts: the state of a bucket without tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What the wall clock showed at the snapshot, by its writer's reckoning, in nanoseconds since 1970.
    pub unix_nanos: u64,
    /// What is taken, by the time in which it counts.
    pub spans: Vec<UsageSpan>,
    /// Whether more may be taken than anybody knows: everything counts as taken for as long as what starts at the snapshot does.
    pub doubted: bool,
}

/// So much counts in this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageSpan {
    /// From when on, in nanoseconds from the snapshot on.
    pub from_nanos: i64,
    /// Until when.
    pub until_nanos: i64,
    /// How much, in millionths.
    pub micros: u64,
}

/// Blocks that follow each other, as no more than [`MOST_BLOCKS`]: each of several that are made one counts as much as the largest.
pub(crate) fn condensed(mut blocks: Vec<UsageBlock>) -> Vec<UsageBlock> {
    blocks.retain(|block| block.credit > Credit::ZERO);
    if blocks.len() <= MOST_BLOCKS {
        return blocks;
    }
    let rest = blocks.split_off(EXACT_BLOCKS);
    let each = rest.len().div_ceil(MOST_BLOCKS - EXACT_BLOCKS);
    blocks.extend(rest.chunks(each).filter_map(|several| several.iter().copied().reduce(hull)));
    blocks
}

fn hull(one: UsageBlock, other: UsageBlock) -> UsageBlock {
    UsageBlock {
        from: one.from.min(other.from),
        until: one.until.max(other.until),
        credit: one.credit.max(other.credit),
    }
}

/// How `blocks` are told.
pub(crate) fn told(now: Time, unix_nanos: u64, rate: &Rate, blocks: &[UsageBlock]) -> Usage {
    let span = |block: &UsageBlock| UsageSpan {
        from_nanos: distance(now, block.from),
        until_nanos: distance(now, block.until),
        micros: rate.micros_up(block.credit),
    };
    Usage { unix_nanos, spans: blocks.iter().map(span).collect(), doubted: false }
}

/// The blocks that were told at `then`, when the wall clock shows `unix_nanos` by the reckoning here. Where that differs by little from
/// its writer's, the wall clock counts, by which windows are cut; otherwise one of them was set, and what has passed since counts.
pub(crate) fn heard(then: Time, unix_nanos: u64, period: Span, rate: &Rate, taken: &Usage) -> Vec<UsageBlock> {
    let ahead = i64::try_from(i128::from(taken.unix_nanos) - i128::from(unix_nanos)).unwrap_or(i64::MAX);
    let same = SAME_TIME.nanos().min(period.nanos() / SAME_TIME_PART);
    let ahead = if ahead.unsigned_abs() <= same { ahead } else { 0 };
    let later = |nanos: i64| if nanos == i64::MAX { nanos } else { nanos.saturating_add(ahead) };
    let block = |span: &UsageSpan| UsageBlock {
        from: moved(then, later(span.from_nanos)),
        until: moved(then, later(span.until_nanos)),
        credit: rate.credit_of_micros(i128::from(span.micros)),
    };
    taken.spans.iter().map(block).filter(|block| block.from < block.until).collect()
}

/// How far `time` lies ahead of `now` in nanoseconds; negative if it lies behind.
pub(crate) fn distance(now: Time, time: Time) -> i64 {
    let ahead = i64::try_from(time.since(now).nanos()).unwrap_or(i64::MAX);
    let behind = i64::try_from(now.since(time).nanos()).unwrap_or(i64::MAX);
    ahead - behind
}

/// What is as far ahead as can be said is for ever.
fn moved(time: Time, nanos: i64) -> Time {
    let span = Span::from_nanos(nanos.unsigned_abs());
    match nanos {
        i64::MAX => Time::NEVER,
        0.. => time + span,
        _ => time - span,
    }
}
