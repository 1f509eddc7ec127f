//! When waiting requests get updates: their position and estimated start.
//!
//! A new request gets one at once, and then one every few seconds.

use super::fair_order::Arrival;
use crate::collections::Slot;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeSet;

/// How long after an update the next one is due; the protocol promises 5 s.
pub(crate) const INTERVAL: Span = Span::from_secs(3);
/// Requests that one event updates, which takes no longer than a few hundred microseconds.
const BATCH: usize = 64;
/// The longest time between two batches.
const MAX_PAUSE: Span = Span::from_millis(1);
/// The longest time in which all requests are updated: what [`INTERVAL`] leaves of the protocol's
/// 5 s.
const MAX_ROUND: Span = Span::from_secs(2);

/// The requests that want updates, by when each is due.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueUpdates {
    due: BTreeSet<(Time, Arrival, Slot)>,
    /// When the batch may be sent that follows a full one.
    next_batch: Time,
}

impl QueueUpdates {
    pub(super) fn add(&mut self, due: Time, arrival: Arrival, slot: Slot) {
        assert!(self.due.insert((due, arrival, slot)), "a subscriber has one update ahead");
    }

    pub(super) fn remove(&mut self, due: Time, arrival: Arrival, slot: Slot) {
        assert!(self.due.remove(&(due, arrival, slot)), "a subscriber has one update ahead");
    }

    /// When the next batch of requests gets its updates.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.first().map(|(due, ..)| self.next_batch.max(*due))
    }

    /// The requests of the batch at `now`, whose next updates have to be set.
    pub(crate) fn next_batch(&mut self, now: Time) -> Vec<Slot> {
        let due = self.due.iter().take_while(|(due, ..)| *due <= now);
        let batch: Vec<Slot> = due.take(BATCH).map(|(.., slot)| *slot).collect();
        let share = Span::from_nanos(MAX_ROUND.nanos() * BATCH as u64 / (self.due.len() as u64 + 1));
        self.next_batch = if batch.len() == BATCH { now + share.min(MAX_PAUSE) } else { now };
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::Slab;

    /// How long it takes to update so many requests that are due at once.
    fn round(subscribers: u64) -> Span {
        let (mut updates, slot) = (QueueUpdates::default(), Slab::default().insert(()));
        (1..=subscribers).for_each(|serial| updates.add(Time::ORIGIN, Arrival { at: Time::ORIGIN, serial }, slot));
        let (mut now, mut serial) = (Time::ORIGIN, 0);
        while let Some(next) = updates.next().filter(|next| next.since(Time::ORIGIN) < INTERVAL) {
            now = next;
            for slot in updates.next_batch(now) {
                serial += 1;
                let arrival = Arrival { at: Time::ORIGIN, serial };
                updates.remove(Time::ORIGIN, arrival, slot);
                updates.add(now + INTERVAL, arrival, slot);
            }
        }
        assert_eq!(serial, subscribers);
        now.since(Time::ORIGIN)
    }

    /// Reaches `MAX_PAUSE` and `MAX_ROUND`.
    #[test]
    fn a_round_has_a_longest_time() {
        assert_eq!(round(64 * 1000), Span::from_millis(999));
        let longest = round(64 * 10_000);
        assert!(Span::from_millis(1900) < longest && longest <= Span::from_secs(2), "{longest}");
    }
}
