//! Buckets without keys in a snapshot.

use super::snapshot::{DebitSnapshot, LevelSnapshot, StatedSnapshot};
use crate::arithmetic::Credit;
use crate::ids::LimitId;
use crate::ledger::{Backlog, NEAR};
use crate::limits::{Bucket, UsageBlock, just_after};
use crate::permits::Permit;
use crate::policy::{Limit, Resource};
use crate::scheduler::parts::RecordedParts;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeSet;

/// The largest number of equal steps of pending debits. With steps no longer than a limit's period,
/// a successor holds little back for long.
const MAX_DEBIT_STEPS: u64 = 16;
/// The largest number of steps with inherited ones, enough for a dozen crashes within seconds.
const MAX_DEBITS: usize = 128;

/// The promises that a snapshot lists one by one: those with the latest starts.
pub(crate) struct ListedPromises {
    /// The earliest listed start.
    first: Option<Time>,
    promised: Backlog,
}

impl ListedPromises {
    pub(crate) fn none(resource: &Resource) -> Self {
        ListedPromises { first: None, promised: Backlog::none(resource) }
    }

    /// The promises among these permits, which must be the permits with the latest starts.
    pub(crate) fn of<R>(resource: &Resource, now: Time, permits: &[(Time, &Permit<R>)]) -> Self {
        let mut listed = ListedPromises::none(resource);
        for (start, permit) in permits.iter().filter(|(start, permit)| *start > now && permit.granted().is_some()) {
            listed.first = Some(*start);
            listed.promised.add(resource, &permit.bill);
        }
        listed
    }

    /// The pending debits right after `time`, without listed promises. From the first listed start
    /// on, only inherited debits remain.
    fn without(&self, bucket: &Bucket, limit: LimitId, time: Time) -> Credit {
        match self.first {
            Some(first) if time >= first => bucket.pending_debits().at(just_after(time).at),
            Some(_) | None => bucket.outstanding_after(time) - self.promised.of(limit),
        }
    }
}

impl<R> RecordedParts<'_, R> {
    /// All levels, with every promise and the budget for starts until `near` spent.
    pub(crate) fn level_snapshots(
        &self,
        now: Time,
        (near, granted): (Time, &[Credit]),
        listed: &ListedPromises,
    ) -> Vec<LevelSnapshot> {
        let snapshot = |(id, limit): (LimitId, &Limit)| {
            self.level_snapshot(id, limit, UsageBlock { from: now, until: near, credit: granted[id.index()] }, listed)
        };
        self.resource.limits_by_id().filter(|(_, limit)| !limit.is_keyed()).map(snapshot).collect()
    }

    fn level_snapshot(
        &self,
        id: LimitId,
        limit: &Limit,
        granted: UsageBlock,
        listed: &ListedPromises,
    ) -> LevelSnapshot {
        let UsageBlock { from: now, until: near, credit: budget } = granted;
        let (adaptive, rate) = (self.ledger.adaptive(id), limit.rate());
        let taken = adaptive.bucket.usage(limit, now, &[granted], near);
        let last = listed.first.unwrap_or(Time::NEVER).min(adaptive.bucket.last_promise().unwrap_or(now));
        let outstanding = |from: Time| {
            let unknown = if from < near { budget } else { Credit::ZERO };
            rate.micros_up(listed.without(&adaptive.bucket, id, from) + unknown)
        };
        let steps = || pending_debits(&adaptive.bucket, now, (last.min(now + NEAR).max(near), last), outstanding);
        LevelSnapshot {
            limit: limit.spec().name.clone(),
            // A successor has measured nothing yet.
            micros: rate.micros(adaptive.level(now) + adaptive.estimator.beyond_margin() - budget),
            learned: adaptive.estimator.snapshot(now),
            stated: adaptive.stated.lowered().map(|stated| StatedSnapshot {
                written: limit.spec().capacity,
                capacity: stated.capacity,
                age_nanos: now.since(stated.since).nanos(),
            }),
            pending_debits: if taken.is_some() { Vec::new() } else { steps() },
            taken,
        }
    }
}

/// The pending debits of a successor: a step until `near`, and equal ones until `last`. Inherited
/// steps keep their ends. `outstanding` is the debit from a step's beginning.
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

/// The ends of new steps: the first at `near`, then equal ones until `far`.
fn steps(now: Time, near: Time, far: Time) -> BTreeSet<Time> {
    let (first, rest) = (near.since(now).nanos(), far.since(near).nanos());
    let count = rest.div_ceil(first.max(1)).min(MAX_DEBIT_STEPS);
    let step = |index: u64| near + Span::from_nanos((u128::from(rest) * u128::from(index) / u128::from(count)) as u64);
    std::iter::once(near).chain((1..=count).map(step)).collect()
}

/// Merges equal steps. Above the bound, the first steps are extended until the next one ends.
fn merged(steps: Vec<DebitSnapshot>) -> Vec<DebitSnapshot> {
    let mut merged: Vec<DebitSnapshot> = Vec::new();
    let surplus = steps.len().saturating_sub(MAX_DEBITS);
    for (index, step) in steps.into_iter().enumerate() {
        match merged.last_mut() {
            Some(last) if last.micros == step.micros || index <= surplus => last.nanos = step.nanos,
            Some(_) | None => merged.push(step),
        }
    }
    merged.retain(|step| step.micros > 0);
    merged
}
