//! Telling those who wait how they stand: at once, in a round when the plan has changed, and in one every few seconds.

use super::class_queue::Arrival;
use crate::collections::Slot;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// How often everybody is told; the protocol promises 5 s.
const REGULARLY: Span = Span::from_secs(3);
/// How soon a changed plan is told after the last round began.
const SOONEST: Span = Span::from_millis(250);
/// As much again for each who is told: a round takes a few hundredths of it.
const FOR_EACH: Span = Span::from_nanos(100_000);
/// So many are told with one event, which takes no longer than a few hundred microseconds.
const SLICE: usize = 64;
/// How long after a slice the next one follows, and how long a round takes at most: what is left until the protocol's 5 s.
const PAUSE: Span = Span::from_millis(1);
const LONGEST_ROUND: Span = Span::from_secs(2);
/// What makes less of a difference than this, or than a tenth of the wait, is no news.
const LEAST_DIFFERENCE: Span = Span::from_millis(100);

/// Who wants to know how it stands, and when news were told.
#[derive(Clone, Debug)]
pub(crate) struct QueueUpdates {
    audience: BTreeMap<Arrival, Slot>,
    /// The round that is under way.
    round: Option<Round>,
    /// When the last round began.
    began: Time,
    /// When everybody is told.
    regularly: Time,
    /// Whether something has changed since the last round began that others plan with.
    changed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    /// Whether those are told as well for whom nothing has changed.
    everybody: bool,
    last_told: Arrival,
    goes_on: Time,
}

impl QueueUpdates {
    pub(crate) fn new(now: Time) -> Self {
        QueueUpdates { audience: BTreeMap::new(), round: None, began: now, regularly: now + REGULARLY, changed: false }
    }

    /// Notes whether something has changed that those who wait plan with.
    pub(crate) fn note(&mut self, changed: bool) {
        self.changed |= changed;
    }

    /// Notes whether a waiting request wants to be told how it stands.
    pub(crate) fn enlist(&mut self, arrival: Arrival, slot: Slot, wants: bool) {
        if wants {
            self.audience.insert(arrival, slot);
        } else {
            self.audience.remove(&arrival);
        }
    }

    /// When those who wait are told how they stand.
    pub(crate) fn next(&self) -> Time {
        let pause = Span::from_nanos(SOONEST.nanos() + FOR_EACH.nanos() * self.audience.len() as u64);
        let soon = if self.changed { self.began + pause } else { Time::NEVER };
        self.round.map_or(self.regularly.min(soon), |round| round.goes_on)
    }

    fn begin(&mut self, now: Time) -> Round {
        let everybody = self.regularly <= now;
        self.regularly = if everybody { now + REGULARLY } else { self.regularly };
        (self.began, self.changed) = (now, false);
        Round { everybody, last_told: Arrival::FIRST, goes_on: now }
    }

    /// The requests of the next slice, and whether those are told as well for which nothing has changed.
    pub(crate) fn next_slice(&mut self, now: Time) -> (bool, Vec<Slot>) {
        let round = self.round.take().unwrap_or_else(|| self.begin(now));
        let rest = self.audience.range((Excluded(round.last_told), Unbounded));
        let slice: Vec<(Arrival, Slot)> = rest.take(SLICE).map(|(arrival, slot)| (*arrival, *slot)).collect();
        if let Some((last_told, _)) = slice.last().copied().filter(|_| slice.len() == SLICE) {
            self.round = Some(Round { last_told, goes_on: now + self.pause(), ..round });
        }
        (round.everybody, slice.into_iter().map(|(_, slot)| slot).collect())
    }

    /// How long the others have to wait while a slice is told.
    fn pause(&self) -> Span {
        Span::from_nanos(LONGEST_ROUND.nanos() * SLICE as u64 / (self.audience.len() as u64 + 1)).min(PAUSE)
    }
}

/// Whether a start differs enough from what was told.
pub(crate) fn is_worth_telling(now: Time, told: Option<Time>, at: Time) -> bool {
    let Some(told) = told else { return true };
    let difference = at.since(told).max(told.since(at));
    let tenth = Span::from_nanos(told.since(now).nanos() / 10);
    difference > tenth.max(LEAST_DIFFERENCE)
}
