//! Buckets without keys in a snapshot.

use super::snapshot::{DebitSnapshot, LevelSnapshot, StatedSnapshot};
use crate::arithmetic::Credit;
use crate::ids::LimitId;
use crate::ledger::{Backlog, NEAR};
use crate::limits::{TokenBucket, UsageBlock, just_after};
use crate::permits::Permit;
use crate::policy::{Limit, Resource};
use crate::scheduler::parts::RecordedParts;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeSet;

/// The largest number of equal steps of pending debits. Steps shorter than the period keep a
/// successor from holding much stock back for long.
const MAX_DEBIT_STEPS: u64 = 16;
/// The largest number of steps, including inherited ones: enough for a dozen crashes within
/// seconds.
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
    fn without(&self, bucket: &TokenBucket, limit: LimitId, time: Time) -> Credit {
        match self.first {
            Some(first) if time >= first => bucket.pending_debits().at(just_after(time).at),
            Some(_) | None => bucket.outstanding_after(time) - self.promised.of(limit),
        }
    }
}

impl<R> RecordedParts<'_, R> {
    /// All levels, with every promise and the budget of each limit spent. Budgets are for starts
    /// between now and a near time.
    pub(crate) fn level_snapshots(
        &self,
        budgets: impl Iterator<Item = UsageBlock>,
        listed: &ListedPromises,
    ) -> Vec<LevelSnapshot> {
        let limits = self.resource.limits_by_id().zip(budgets).filter(|((_, limit), _)| !limit.is_keyed());
        limits.map(|((id, limit), budget)| self.level_snapshot(id, limit, budget, listed)).collect()
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
        let last = listed.first.unwrap_or(Time::NEVER).min(adaptive.bucket.last_promise().unwrap_or(now));
        let debits = |bucket: &TokenBucket| {
            let outstanding = |from: Time| {
                let unknown = if from < near { budget } else { Credit::ZERO };
                rate.micros_up(listed.without(bucket, id, from) + unknown)
            };
            pending_debits(bucket, now, steps(now, last.min(now + NEAR).max(near), last), outstanding)
        };
        LevelSnapshot {
            limit: limit.spec().name.clone(),
            // A successor has not measured the jitter yet.
            micros: rate.micros(adaptive.level(now) + adaptive.estimator.beyond_margin() - budget),
            learned: adaptive.estimator.snapshot(now),
            stated: adaptive.stated().map(|stated| StatedSnapshot {
                written: limit.spec().capacity,
                capacity: stated.capacity,
                age: now.since(stated.since),
            }),
            pending_debits: adaptive.bucket.tokens().map_or(Vec::new(), debits),
            taken: adaptive.bucket.counted().map(|counted| counted.usage(limit, now, &[granted], near)),
        }
    }
}

/// The pending debits of a successor, in steps with these ends. Inherited steps keep their ends.
/// `outstanding` is the debit from a step's beginning.
fn pending_debits(
    bucket: &TokenBucket,
    now: Time,
    ends: BTreeSet<Time>,
    outstanding: impl Fn(Time) -> u64,
) -> Vec<DebitSnapshot> {
    let inherited = bucket.pending_debits().steps().map(|(until, _)| until).filter(|until| *until > now);
    let ends: BTreeSet<Time> = ends.into_iter().chain(inherited).collect();
    let from = std::iter::once(now).chain(ends.iter().copied());
    let step = |(from, until): (Time, &Time)| DebitSnapshot { ends_in: until.since(now), micros: outstanding(from) };
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
            Some(last) if last.micros == step.micros || index <= surplus => last.ends_in = step.ends_in,
            Some(_) | None => merged.push(step),
        }
    }
    merged.retain(|step| step.micros > 0);
    merged
}
