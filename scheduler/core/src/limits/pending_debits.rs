//! Stock that a predecessor may have promised for later.

use crate::array_form::stored_as_array;
use rampmeter_policy::arithmetic::{Credit, Rate};
use rampmeter_protocol::time::{Span, Time};
use serde::Deserialize;
use std::collections::BTreeSet;

/// The largest number of equal steps of pending debits. Steps shorter than the period keep a
/// successor from holding much stock back for long.
const MAX_DEBIT_STEPS: u64 = 16;
/// The largest number of steps, with inherited ones: enough for a dozen crashes within seconds.
const MAX_DEBITS: usize = 128;

/// A step of pending debits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct DebitSnapshot {
    /// The time from the snapshot to its end.
    pub ends_in: Span,
    /// The amount in millionths.
    pub micros: u64,
}
stored_as_array!(DebitSnapshot: ends_in, micros);

/// Steps that lower a bucket's full level: each credit counts until its time. Credits never rise.
///
/// A successor charges promises before their starts. Its bucket would then refill while the
/// upstream's is still full and loses the refill, so its full level is lower until then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingDebits(Vec<(Time, Credit)>);

impl PendingDebits {
    pub(crate) fn new(steps: Vec<(Time, Credit)>) -> Self {
        assert!(steps.is_sorted_by(|(a, more), (b, less)| a < b && more >= less), "pending debits only shrink");
        PendingDebits(steps)
    }

    /// Restores steps. Unordered ones, which no scheduler writes, become one that covers all.
    pub(crate) fn restored(then: Time, rate: &Rate, debits: &[DebitSnapshot]) -> Self {
        let step = |debit: &DebitSnapshot| (then + debit.ends_in, rate.credit_of_micros(i128::from(debit.micros)));
        let steps: Vec<(Time, Credit)> = debits.iter().map(step).collect();
        if steps.is_sorted_by(|(a, more), (b, less)| a < b && more >= less) {
            return PendingDebits::new(steps);
        }
        let last = steps.iter().map(|(until, _)| *until).max();
        let most = steps.iter().map(|(_, credit)| *credit).max();
        PendingDebits::new(last.zip(most).into_iter().collect())
    }

    /// Records a successor's pending debits: new steps until `near` and `far`, and inherited ones.
    /// `owed` is the debit from a step's beginning, in millionths.
    pub(crate) fn snapshots(&self, now: Time, near: Time, far: Time, owed: impl Fn(Time) -> u64) -> Vec<DebitSnapshot> {
        let inherited = self.steps().map(|(until, _)| until).filter(|until| *until > now);
        let ends: BTreeSet<Time> = steps(now, near, far).chain(inherited).collect();
        let from = std::iter::once(now).chain(ends.iter().copied());
        let step = |(from, until): (Time, &Time)| DebitSnapshot { ends_in: until.since(now), micros: owed(from) };
        merged(from.zip(&ends).map(step).collect())
    }

    pub(crate) const fn none() -> Self {
        PendingDebits(Vec::new())
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn at(&self, time: Time) -> Credit {
        self.0.iter().find(|(until, _)| time <= *until).map_or(Credit::ZERO, |(_, credit)| *credit)
    }

    pub(crate) fn at_most(&self, most: Credit) -> Time {
        let last = self.0.iter().rev().find(|(_, credit)| *credit > most);
        last.map_or(Time::ORIGIN, |(until, _)| *until + Span::from_nanos(1))
    }

    /// Iterates over each step's end, and what is pending until then.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (Time, Credit)> {
        self.0.iter().copied()
    }

    pub(crate) fn drop_steps_ended_before(&mut self, now: Time) {
        if self.0.first().is_some_and(|(until, _)| *until < now) {
            self.0.retain(|(until, _)| *until >= now);
        }
    }
}

/// Iterates over the ends of new steps: the first at `near`, then equal ones until `far`.
fn steps(now: Time, near: Time, far: Time) -> impl Iterator<Item = Time> {
    let (first, rest) = (near.since(now).nanos(), far.since(near).nanos());
    let count = rest.div_ceil(first.max(1)).min(MAX_DEBIT_STEPS);
    let step =
        move |index: u64| near + Span::from_nanos((u128::from(rest) * u128::from(index) / u128::from(count)) as u64);
    std::iter::once(near).chain((1..=count).map(step))
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
