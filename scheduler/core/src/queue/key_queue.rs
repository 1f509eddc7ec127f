//! The queue of one key: requests that only the bucket of this key holds up.

use super::fair_order::Arrival;
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::ids::ClassId;
use rampmeter_protocol::time::Time;
use std::collections::BTreeMap;

/// A position in a key queue: by class, the most urgent first, and by arrival within a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyQueuePosition {
    pub(crate) class: ClassId,
    pub(crate) arrival: Arrival,
}

impl KeyQueuePosition {
    const fn first(class: ClassId) -> Self {
        KeyQueuePosition { class, arrival: Arrival::FIRST }
    }

    const fn last(class: ClassId) -> Self {
        KeyQueuePosition { class, arrival: Arrival::LAST }
    }
}

/// The most requests that are counted one by one. In a longer queue, a position is estimated.
const MAX_COUNTED: usize = 256;

/// How many requests there are, and what they will take of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueDemand {
    pub(crate) count: usize,
    pub(crate) backlog: Credit,
}

impl QueueDemand {
    fn of_one(cost: Credit) -> Self {
        QueueDemand { count: 1, backlog: cost }
    }

    fn and(self, other: QueueDemand) -> Self {
        QueueDemand { count: self.count + other.count, backlog: self.backlog.saturating_add(other.backlog) }
    }

    fn without(self, other: QueueDemand) -> Self {
        QueueDemand { count: self.count - other.count, backlog: self.backlog - other.backlog }
    }

    fn half(self) -> Self {
        QueueDemand { count: self.count / 2, backlog: self.backlog.divided_by(2) }
    }
}

/// The rank of a request in its queue. Starved requests are first, by arrival; the other ones
/// follow by class.
fn rank(position: KeyQueuePosition, starved: impl Fn(KeyQueuePosition) -> bool) -> (bool, Option<ClassId>, Arrival) {
    let KeyQueuePosition { class, arrival } = position;
    if starved(position) { (false, None, arrival) } else { (true, Some(class), arrival) }
}

/// Requests that wait for one key's bucket, and block no other key.
///
/// Invariant: `demand` has the sums of `waiting` for each class.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyQueue {
    waiting: BTreeMap<KeyQueuePosition, (Slot, Credit)>,
    /// The demand of each class.
    demand: BTreeMap<ClassId, QueueDemand>,
    /// The request for which the key keeps an amount. It was first in this queue, and may now wait
    /// for another key.
    kept_for: Option<(KeyQueuePosition, Slot)>,
    /// When the first request may go, as far as is known.
    pub(super) alarm: Option<Time>,
}

impl KeyQueue {
    pub(super) fn join(&mut self, position: KeyQueuePosition, slot: Slot, cost: Credit) {
        self.waiting.insert(position, (slot, cost));
        let demand = self.demand.entry(position.class).or_default();
        *demand = demand.and(QueueDemand::of_one(cost));
    }

    pub(super) fn leave(&mut self, position: KeyQueuePosition) {
        let (_, cost) = self.waiting.remove(&position).expect("a request that leaves a key queue was in it");
        let demand = self.demand.get_mut(&position.class).expect("a class with a waiting request");
        *demand = demand.without(QueueDemand::of_one(cost));
    }

    /// Drops the first request of a queue that is not used any more. Returns whether there was one.
    pub(super) fn drop_first(&mut self) -> bool {
        self.waiting.pop_first().is_some()
    }

    /// Reserves what the request in `slot` needs. It was first in the queue, at `position`.
    pub(super) fn keep_for(&mut self, position: KeyQueuePosition, slot: Slot) {
        self.kept_for = Some((position, slot));
    }

    /// The request for which the key keeps an amount, and the position that it had in this queue.
    pub(crate) fn kept_for(&self) -> Option<(KeyQueuePosition, Slot)> {
        self.kept_for
    }

    /// Frees the amount that is kept for the request in `slot`, if there is one.
    pub(super) fn release(&mut self, slot: Slot) {
        self.kept_for.take_if(|(_, kept_for)| *kept_for == slot);
    }

    /// The request for which the key keeps an amount, if it goes before `position`.
    pub(crate) fn kept_for_before(
        &self,
        position: KeyQueuePosition,
        starved: impl Fn(KeyQueuePosition) -> bool,
    ) -> Option<Slot> {
        let before = |(other, _): &(KeyQueuePosition, Slot)| rank(*other, &starved) < rank(position, &starved);
        self.kept_for.filter(before).map(|(_, slot)| slot)
    }

    pub(crate) fn first(&self, starved: impl Fn(KeyQueuePosition) -> bool) -> Option<(KeyQueuePosition, Slot)> {
        let first_of = |class: &ClassId| {
            self.waiting.range(KeyQueuePosition::first(*class)..=KeyQueuePosition::last(*class)).next()
        };
        let firsts = self.demand.keys().filter_map(first_of).map(|(position, (slot, _))| (*position, *slot));
        firsts.min_by_key(|(position, _)| rank(*position, &starved))
    }

    pub(crate) fn goes_before(&self, position: KeyQueuePosition, starved: impl Fn(KeyQueuePosition) -> bool) -> bool {
        self.first(&starved).is_some_and(|(first, _)| rank(first, &starved) < rank(position, &starved))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.waiting.values().map(|(slot, _)| *slot)
    }

    pub(crate) fn through(&self, class: ClassId) -> QueueDemand {
        self.demand.range(..=class).map(|(_, demand)| *demand).fold(QueueDemand::default(), QueueDemand::and)
    }

    /// The demand before `position`, which is an estimate in a long queue.
    pub(crate) fn ahead_of(&self, position: KeyQueuePosition) -> QueueDemand {
        let all = self.through(position.class);
        let own = self.demand.get(&position.class).copied().unwrap_or_default();
        let behind = self.waiting.range(position..=KeyQueuePosition::last(position.class)).take(MAX_COUNTED);
        let behind =
            behind.map(|(_, (_, cost))| QueueDemand::of_one(*cost)).fold(QueueDemand::default(), QueueDemand::and);
        all.without(if behind.count < MAX_COUNTED { behind } else { own.half() })
    }

    pub(super) fn is_deserted(&self) -> bool {
        self.waiting.is_empty() && self.kept_for.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::Slab;

    /// How many requests are ahead of the first of so many, and of the last.
    fn ahead(waiting: u64) -> (usize, usize) {
        let (mut queue, slot) = (KeyQueue::default(), Slab::default().insert(()));
        let position = |serial| KeyQueuePosition { class: ClassId(0), arrival: Arrival { at: Time::ORIGIN, serial } };
        (1..=waiting).for_each(|serial| queue.join(position(serial), slot, Credit::ZERO));
        (queue.ahead_of(position(1)).count, queue.ahead_of(position(waiting)).count)
    }

    #[test]
    fn a_position_is_counted_in_a_short_queue_and_estimated_in_a_long_one() {
        assert_eq!(ahead(MAX_COUNTED as u64 - 1), (0, 254));
        assert_eq!(ahead(MAX_COUNTED as u64), (128, 255));
        assert_eq!(ahead(1000), (500, 999));
    }
}
