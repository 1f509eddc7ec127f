//! What a successor is told of the buckets without keys.

use super::snapshot::{DebitSnapshot, LevelSnapshot};
use crate::arithmetic::Credit;
use crate::ids::LimitId;
use crate::ledger::{Backlog, NEAR};
use crate::limits::{Bucket, UsageBlock, just_after};
use crate::policy::{Limit, Resource};
use crate::scheduler::Scheduler;
use crate::scheduler::permits::Permit;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeSet;

/// Steps in which promises for later are told to a successor. As long as one step is not longer than a limit's period, a
/// successor withholds nothing for long that could be used.
const MAX_STEPS: u64 = 16;
/// Steps that one bucket's predecessors can leave: a dozen crashes within seconds.
const MAX_WITHHELD: usize = 128;

/// Promises that a successor is told of one by one: those of the latest starts.
pub(crate) struct ListedPromises {
    /// The first start of them.
    first: Option<Time>,
    promised: Backlog,
}

impl ListedPromises {
    pub(crate) fn none(resource: &Resource) -> Self {
        ListedPromises { first: None, promised: Backlog::none(resource) }
    }

    /// The promises among these permits, of which there are none with later starts.
    pub(crate) fn of<R>(resource: &Resource, now: Time, permits: &[(Time, &Permit<R>)]) -> Self {
        let mut listed = ListedPromises::none(resource);
        for (start, permit) in permits.iter().filter(|(start, permit)| *start > now && permit.granted().is_some()) {
            listed.first = Some(*start);
            listed.promised.add(resource, &permit.bill);
        }
        listed
    }

    /// What a successor has to withhold right after `time` beside what is listed: behind the first that is, all others are.
    fn without(&self, bucket: &Bucket, limit: LimitId, time: Time) -> Credit {
        match self.first {
            Some(first) if time >= first => bucket.pending_debits().at(just_after(time).at),
            Some(_) | None => bucket.outstanding_after(time) - self.promised.of(limit),
        }
    }
}

impl<R: Clone> Scheduler<R> {
    /// All levels with everything promised spent, and so much of each limit that may be granted for starts until `near`.
    pub(crate) fn level_snapshots(
        &self,
        now: Time,
        (near, granted): (Time, &[Credit]),
        listed: &ListedPromises,
    ) -> Vec<LevelSnapshot> {
        let mark = |(id, limit): (LimitId, &Limit)| {
            self.level_snapshot(id, limit, UsageBlock { from: now, until: near, credit: granted[id.index()] }, listed)
        };
        self.resource.limits_by_id().filter(|(_, limit)| !limit.is_keyed()).map(mark).collect()
    }

    fn level_snapshot(
        &self,
        id: LimitId,
        limit: &Limit,
        granted: UsageBlock,
        listed: &ListedPromises,
    ) -> LevelSnapshot {
        let UsageBlock { from: now, until: near, credit: budget } = granted;
        let (book, rate) = (self.ledger.adaptive(id), limit.rate());
        let taken = book.bucket.usage(limit, now, &[granted], near);
        let last = listed.first.unwrap_or(Time::NEVER).min(book.bucket.last_promise().unwrap_or(now));
        let outstanding = |from: Time| {
            let unknown = if from < near { budget } else { Credit::ZERO };
            rate.micros_up(listed.without(&book.bucket, id, from) + unknown)
        };
        let steps = || pending_debits(&book.bucket, now, (last.min(now + NEAR).max(near), last), outstanding);
        LevelSnapshot {
            limit: limit.spec().name.clone(),
            micros: rate.micros(book.level(now) - budget),
            learned: book.estimator.checkpoint(now),
            pending_debits: if taken.is_some() { Vec::new() } else { steps() },
            taken,
        }
    }
}

/// What a successor withholds, step by step: the first ends at `near`, the others are equal until `last`, and each step that was
/// inherited ends where it did. `outstanding` says how much from the beginning of each step on.
fn pending_debits(
    bucket: &Bucket,
    now: Time,
    (near, last): (Time, Time),
    outstanding: impl Fn(Time) -> u64,
) -> Vec<DebitSnapshot> {
    let inherited = bucket.pending_debits().steps().map(|(until, _)| until).filter(|until| *until > now);
    let ends: BTreeSet<Time> = steps(now, near, last.max(near)).into_iter().chain(inherited).collect();
    let from = std::iter::once(now).chain(ends.iter().copied());
    let step =
        |(from, until): (Time, &Time)| DebitSnapshot { nanos: until.since(now).nanos(), micros: outstanding(from) };
    merged(from.zip(&ends).map(step).collect())
}

/// The ends of the steps in which a successor learns what to withhold: the first at `near`, then equal ones until `far`.
fn steps(now: Time, near: Time, far: Time) -> BTreeSet<Time> {
    let (first, rest) = (near.since(now).nanos(), far.since(near).nanos());
    let count = rest.div_ceil(first.max(1)).min(MAX_STEPS);
    let step = |index: u64| near + Span::from_nanos((u128::from(rest) * u128::from(index) / u128::from(count)) as u64);
    std::iter::once(near).chain((1..=count).map(step)).collect()
}

/// Steps of equal amounts as one, and no more than the bound: of too many, some last until the next one ends.
fn merged(steps: Vec<DebitSnapshot>) -> Vec<DebitSnapshot> {
    let mut merged: Vec<DebitSnapshot> = Vec::new();
    let surplus = steps.len().saturating_sub(MAX_WITHHELD);
    for (index, step) in steps.into_iter().enumerate() {
        match merged.last_mut() {
            Some(last) if last.micros == step.micros || index <= surplus => last.nanos = step.nanos,
            Some(_) | None => merged.push(step),
        }
    }
    merged.retain(|step| step.micros > 0);
    merged
}
