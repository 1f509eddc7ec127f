//! When waiting requests get updates: their position and estimated start.
//!
//! A new request gets one at once. All requests get one in a round every few seconds. If the
//! dispatch has changed, an earlier round updates those whose start has moved.

use super::fair_order::Arrival;
use crate::collections::Slot;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// How often all requests get an update; the protocol promises 5 s.
const INTERVAL: Span = Span::from_secs(3);
/// The least time between the beginnings of two rounds.
const MIN_GAP: Span = Span::from_millis(250);
/// Each subscriber adds this to [`MIN_GAP`], so that rounds take a few hundredths of the time.
const GAP_PER_SUBSCRIBER: Span = Span::from_nanos(100_000);
/// Requests that one event updates, which takes no longer than a few hundred microseconds.
const BATCH: usize = 64;
/// The longest time between two batches of a round.
const MAX_PAUSE: Span = Span::from_millis(1);
/// The longest round: what [`INTERVAL`] leaves of the protocol's 5 s.
const MAX_ROUND: Span = Span::from_secs(2);
/// A start that moves by less than this, or by less than a tenth of the wait, is no update.
const MIN_CHANGE: Span = Span::from_millis(100);

/// The requests that want updates, and the rounds that send them.
#[derive(Clone, Debug)]
pub(crate) struct QueueUpdates {
    subscribers: BTreeMap<Arrival, Slot>,
    /// The round that is under way.
    round: Option<Round>,
    last_round_began: Time,
    /// When the next round that updates all begins.
    next_full_round: Time,
    /// Whether the dispatch has changed since the last round began.
    changed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    /// Whether requests whose start has not moved get an update too.
    full: bool,
    last_updated: Arrival,
    next_batch: Time,
}

impl QueueUpdates {
    pub(crate) fn new(now: Time) -> Self {
        QueueUpdates {
            subscribers: BTreeMap::new(),
            round: None,
            last_round_began: now,
            next_full_round: now + INTERVAL,
            changed: false,
        }
    }

    /// Notes whether starts of waiting requests may have moved.
    pub(crate) fn note(&mut self, changed: bool) {
        self.changed |= changed;
    }

    /// Makes a full round due: every subscriber gets an update.
    pub(crate) fn update_all(&mut self, now: Time) {
        (self.round, self.next_full_round) = (None, now);
    }

    /// Notes whether a waiting request wants updates.
    pub(super) fn set_subscribed(&mut self, arrival: Arrival, slot: Slot, wants: bool) {
        if wants {
            self.subscribers.insert(arrival, slot);
        } else {
            self.subscribers.remove(&arrival);
        }
    }

    /// When the next batch of requests gets its updates.
    pub(crate) fn next(&self) -> Time {
        let gap = Span::from_nanos(MIN_GAP.nanos() + GAP_PER_SUBSCRIBER.nanos() * self.subscribers.len() as u64);
        let soon = if self.changed { self.last_round_began + gap } else { Time::NEVER };
        self.round.map_or(self.next_full_round.min(soon), |round| round.next_batch)
    }

    /// Whether the round also updates requests whose start has not moved, and the requests of its
    /// next batch.
    pub(crate) fn next_batch(&mut self, now: Time) -> (bool, Vec<Slot>) {
        let round = self.round.take().unwrap_or_else(|| self.begin(now));
        let rest = self.subscribers.range((Excluded(round.last_updated), Unbounded));
        let batch: Vec<(Arrival, Slot)> = rest.take(BATCH).map(|(arrival, slot)| (*arrival, *slot)).collect();
        if let Some((last_updated, _)) = batch.last().copied().filter(|_| batch.len() == BATCH) {
            let share = MAX_ROUND.nanos() * BATCH as u64 / (self.subscribers.len() as u64 + 1);
            let pause = Span::from_nanos(share).min(MAX_PAUSE);
            self.round = Some(Round { last_updated, next_batch: now + pause, ..round });
        }
        (round.full, batch.into_iter().map(|(_, slot)| slot).collect())
    }

    fn begin(&mut self, now: Time) -> Round {
        let full = self.next_full_round <= now;
        if full {
            self.next_full_round = now + INTERVAL;
        }
        (self.last_round_began, self.changed) = (now, false);
        Round { full, last_updated: Arrival::FIRST, next_batch: now }
    }
}

/// Whether a start differs enough from the one that was sent last.
pub(crate) fn is_worth_an_update(now: Time, last_sent: Option<Time>, at: Time) -> bool {
    let Some(last_sent) = last_sent else { return true };
    let difference = at.since(last_sent).max(last_sent.since(at));
    let tenth = Span::from_nanos(last_sent.since(now).nanos() / 10);
    difference > tenth.max(MIN_CHANGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::Slab;

    /// How long a round takes that updates so many requests.
    fn round(subscribers: u64) -> Span {
        let (mut updates, slot) = (QueueUpdates::new(Time::ORIGIN), Slab::default().insert(()));
        (1..=subscribers).for_each(|serial| updates.set_subscribed(Arrival { at: Time::ORIGIN, serial }, slot, true));
        let (begun, mut now, mut updated) = (updates.next(), updates.next(), 0);
        loop {
            updated += updates.next_batch(now).1.len() as u64;
            let Some(round) = updates.round else { break };
            now = round.next_batch;
        }
        assert_eq!(updated, subscribers);
        now.since(begun)
    }

    /// Reaches `MAX_ROUND`.
    #[test]
    fn a_round_has_a_longest_time() {
        assert_eq!(round(64 * 1000), Span::from_secs(1));
        let longest = round(64 * 10_000);
        assert!(Span::from_millis(1900) < longest && longest <= Span::from_secs(2), "{longest}");
    }
}
