//! The queues of keys: requests that only the bucket of one key holds up.
//!
//! The order is that of a class queue: promoted requests, then the classes, and within a class
//! fairly by client. Only the first request of each client has a turn, so that a request that
//! leaves costs its client nothing. What a client has had of the key counts when its call starts.
//!
//! A request that has waited for a key precedes only those requests of its client that have the
//! same limit set. The others wait for other limits, so their order does not matter.
//!
//! A request for two keys waits for one of them, while the other keeps the amount that it needs. If
//! it stood first in both queues, a freeze of one key would stop the other. Other requests of the
//! keeping key start meanwhile, unless they would delay the request's earliest start.

use crate::collections::Slot;
use crate::queue::class_queue::Waiting;
use crate::queue::clients::VirtualTime;
use crate::queue::fair_order::Arrival;
use rampmeter_policy::Class;
use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::ids::ClassId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The most requests that are counted one by one. In a longer queue, a position is estimated.
const MAX_COUNTED: usize = 256;
/// The most idle clients whose service is remembered, besides as many as wait.
const MAX_IDLE: usize = 1024;
/// The most idle clients forgotten when a call starts: more than are added then.
const FORGOTTEN_AT_ONCE: usize = 4;

/// The rank of a request: promoted requests are first, the longest overdue before the others, which
/// follow by class, by the service of their client, and by arrival. The rank of the first request
/// is before all others even while it is outside of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    promoted: Result<Time, ()>,
    pub(crate) class: ClassId,
    turn: VirtualTime,
    arrival: Arrival,
}

impl Rank {
    fn promoted(due: Time, class: ClassId, came: Arrival) -> Self {
        Rank { promoted: Ok(due), class, turn: VirtualTime::default(), arrival: came }
    }

    fn in_turn(class: ClassId, turn: VirtualTime, arrival: Arrival) -> Self {
        Rank { promoted: Err(()), class, turn, arrival }
    }
}

/// The number of requests, and what they will take of the key.
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

    fn part(self, count: usize) -> Self {
        let each = self.backlog.divided_by(self.count.max(1) as u64);
        QueueDemand { count, backlog: if count < self.count { each.times(count as u64) } else { self.backlog } }
    }
}

/// Requests that wait for one key's bucket, and block no other key.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyQueue {
    classes: BTreeMap<ClassId, KeyTurns>,
    /// The request for which the key keeps an amount: once first here, it may wait for another key.
    pub(crate) kept_for: Option<Slot>,
    /// When the first request may go, as far as known.
    pub(super) alarm: Option<Time>,
    pub(super) lacks_budget: bool,
}

impl KeyQueue {
    pub(super) fn join<R>(&mut self, waiting: &Waiting<R>, slot: Slot, cost: Credit) {
        self.classes.entry(waiting.class).or_default().join(waiting, slot, cost);
    }

    pub(super) fn leave<R>(&mut self, waiting: &Waiting<R>) {
        self.classes.get_mut(&waiting.class).expect("the class of a waiting request").leave(waiting);
    }

    /// Notes the start of a client's call that takes this much `service` of the key. If it passed
    /// no other request of its class, the class has been `served`.
    pub(super) fn note_start(&mut self, class: ClassId, client: &Arc<str>, service: Span, served: Option<Time>) {
        let turns = self.classes.entry(class).or_default();
        turns.served = served.unwrap_or(turns.served);
        turns.serve(client, service);
    }

    pub(super) fn release(&mut self, slot: Slot) {
        self.kept_for.take_if(|kept_for| *kept_for == slot);
    }

    pub(crate) fn rank<R>(&self, classes: &[Class], now: Time, waiting: &Waiting<R>) -> Rank {
        let Waiting { class, arrival, came, .. } = *waiting;
        let turns = self.classes.get(&class);
        let is_oldest = turns.and_then(KeyTurns::oldest).is_none_or(|(serial, ..)| arrival.serial <= serial);
        let served = turns.map_or(Time::ORIGIN, |turns| turns.served);
        match classes[class.index()].promotes_at(came, served).filter(|due| is_oldest && *due <= now) {
            Some(due) => Rank::promoted(due, class, Arrival { at: came, serial: arrival.serial }),
            None => Rank::in_turn(
                class,
                turns.map_or_else(VirtualTime::default, |turns| turns.turn_of(&waiting.client)),
                arrival,
            ),
        }
    }

    /// Returns the oldest request of each class that is due for promotion at `now`.
    pub(crate) fn starving(&self, classes: &[Class], now: Time) -> impl Iterator<Item = (Rank, Slot)> {
        self.classes.iter().filter_map(move |(class, turns)| {
            let (serial, came, slot) = turns.oldest()?;
            let due = classes[class.index()].promotes_at(came, turns.served).filter(|due| *due <= now)?;
            Some((Rank::promoted(due, *class, Arrival { at: came, serial }), slot))
        })
    }

    pub(crate) fn first(&self, classes: &[Class], now: Time) -> Option<(Rank, Slot)> {
        let in_turn = self.classes.iter().filter_map(|(class, turns)| {
            let (turn, arrival, slot) = turns.first()?;
            Some((Rank::in_turn(*class, turn, arrival), slot))
        });
        self.starving(classes, now).chain(in_turn).min()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.classes.values().flat_map(|turns| turns.by_age.values().map(|(_, slot)| *slot))
    }

    pub(crate) fn demand(&self, classes: impl std::ops::RangeBounds<ClassId>) -> QueueDemand {
        self.classes.range(classes).map(|(_, turns)| turns.demand).fold(QueueDemand::default(), QueueDemand::and)
    }

    /// Returns the demand before a request: an estimate in a long queue or with several clients.
    pub(crate) fn ahead_of<R>(&self, waiting: &Waiting<R>) -> QueueDemand {
        let own = self.classes.get(&waiting.class).map(|turns| turns.ahead_of(&waiting.client, waiting.arrival));
        self.demand(..waiting.class).and(own.unwrap_or_default())
    }

    pub(super) fn is_deserted(&self) -> bool {
        self.classes.values().all(|turns| turns.by_age.is_empty()) && self.kept_for.is_none()
    }
}

/// The requests of one class for a key, whose clients take turns: start-time fair queueing, as in
/// [`Clients`](super::clients::Clients).
///
/// Invariant: `turns` has each client with a waiting request, and `idle` each other one.
#[derive(Clone, Debug, Default)]
struct KeyTurns {
    clients: BTreeMap<Arc<str>, KeyClient>,
    /// The start of the next slice of each client, and its first request.
    turns: BTreeSet<(VirtualTime, Arrival, Arc<str>)>,
    idle: BTreeSet<(VirtualTime, Arc<str>)>,
    by_age: BTreeMap<u64, (Time, Slot)>,
    demand: QueueDemand,
    /// Where the slice of the latest call began.
    clock: VirtualTime,
    served: Time,
}

/// A client's waiting requests in its own order, and where its next slice begins.
#[derive(Clone, Debug, Default)]
struct KeyClient {
    waiting: BTreeMap<Arrival, (Slot, Credit)>,
    demand: QueueDemand,
    next: VirtualTime,
}

impl KeyTurns {
    fn join<R>(&mut self, waiting: &Waiting<R>, slot: Slot, cost: Credit) {
        self.by_age.insert(waiting.arrival.serial, (waiting.came, slot));
        self.demand = self.demand.and(QueueDemand::of_one(cost));
        self.update(&waiting.client, |client| {
            client.waiting.insert(waiting.arrival, (slot, cost));
            client.demand = client.demand.and(QueueDemand::of_one(cost));
        });
    }

    fn leave<R>(&mut self, waiting: &Waiting<R>) {
        self.by_age.remove(&waiting.arrival.serial);
        let cost = self.update(&waiting.client, |client| {
            let (_, cost) = client.waiting.remove(&waiting.arrival).expect("a request that leaves was in the queue");
            client.demand = client.demand.without(QueueDemand::of_one(cost));
            cost
        });
        self.demand = self.demand.without(QueueDemand::of_one(cost));
        assert_eq!(self.by_age.len(), self.demand.count, "a key queue counts each of its requests");
        assert_eq!(self.by_age.is_empty(), self.turns.is_empty(), "a client has a turn while it waits");
    }

    fn serve(&mut self, name: &Arc<str>, service: Span) {
        let clock = self.update(name, |client| {
            let begin = client.next;
            client.next = begin.after(service);
            begin
        });
        self.clock = self.clock.max(clock);
        for _ in 0..FORGOTTEN_AT_ONCE {
            let is_many = self.idle.len() > self.turns.len() + MAX_IDLE;
            let Some((next, name)) = self.idle.first().cloned().filter(|(next, _)| is_many || *next <= self.clock)
            else {
                return;
            };
            self.clients.remove(&name);
            self.idle.remove(&(next, name));
        }
    }

    /// Changes a client and its turn. An idle client saves no credit.
    fn update<T>(&mut self, name: &Arc<str>, change: impl FnOnce(&mut KeyClient) -> T) -> T {
        let client = self.clients.entry(Arc::clone(name)).or_default();
        match client.waiting.first_key_value() {
            Some((first, _)) => drop(self.turns.remove(&(client.next, *first, Arc::clone(name)))),
            None => drop(self.idle.remove(&(client.next, Arc::clone(name)))),
        }
        if client.waiting.is_empty() {
            client.next = client.next.max(self.clock);
        }
        let changed = change(client);
        match client.waiting.first_key_value() {
            Some((first, _)) => drop(self.turns.insert((client.next, *first, Arc::clone(name)))),
            None => drop(self.idle.insert((client.next, Arc::clone(name)))),
        }
        changed
    }

    fn first(&self) -> Option<(VirtualTime, Arrival, Slot)> {
        let (turn, arrival, name) = self.turns.first()?;
        Some((*turn, *arrival, self.clients[name].waiting[arrival].0))
    }

    /// Returns the first request that came: its serial number, when it came, and its slot.
    fn oldest(&self) -> Option<(u64, Time, Slot)> {
        self.by_age.first_key_value().map(|(serial, (came, slot))| (*serial, *came, *slot))
    }

    fn turn_of(&self, name: &str) -> VirtualTime {
        match self.clients.get(name) {
            Some(client) if !client.waiting.is_empty() => client.next,
            known => known.map_or(self.clock, |client| client.next.max(self.clock)),
        }
    }

    /// Counts the requests of its client before this one, and for each one of every other client.
    fn ahead_of(&self, name: &Arc<str>, arrival: Arrival) -> QueueDemand {
        let Some(own) = self.clients.get(name) else { return self.demand };
        let behind = own.waiting.range(arrival..).take(MAX_COUNTED);
        let behind = behind.fold(QueueDemand::default(), |sum, (_, (_, cost))| sum.and(QueueDemand::of_one(*cost)));
        let long = own.demand.part(own.demand.count / 2);
        let before = own.demand.without(if behind.count < MAX_COUNTED { behind } else { long });
        let turn = own.waiting.first_key_value().map(|(first, _)| (own.next, *first, Arc::clone(name)));
        let earlier = turn.map_or(0, |turn| self.turns.range(..turn).take(MAX_COUNTED).count());
        let others = self.demand.without(own.demand);
        let turns = before.count.saturating_mul(self.turns.len().saturating_sub(1)).saturating_add(earlier);
        before.and(others.part(turns.min(others.count)))
    }
}

/// The most keys that a checkpoint budgets for waiting requests: a third of all that it lists.
const MAX_BUDGETED: usize = 1000;

/// The queues of keys that requests wait for, and when each is examined again.
/// Invariant: `alarms` has a queue's alarm exactly as long as the queue has one.
#[derive(Debug, Default)]
pub(crate) struct KeyQueues {
    queues: BTreeMap<Slot, KeyQueue>,
    alarms: BTreeSet<(Time, Slot)>,
    lacking_budget: VecDeque<Slot>,
}

impl KeyQueues {
    pub(crate) fn get(&self, bucket: Slot) -> Option<&KeyQueue> {
        self.queues.get(&bucket)
    }

    pub(super) fn get_mut(&mut self, bucket: Slot) -> Option<&mut KeyQueue> {
        self.queues.get_mut(&bucket)
    }

    pub(crate) fn wait_for_budget(&mut self, bucket: Slot) {
        if !std::mem::replace(&mut self.open(bucket).lacks_budget, true) {
            self.lacking_budget.push_back(bucket);
        }
    }

    /// Returns the keys that the next checkpoint gives a budget: those that waited longest.
    pub(crate) fn next_for_budget(&self) -> impl Iterator<Item = Slot> {
        self.lacking_budget.iter().take(MAX_BUDGETED).copied()
    }

    /// Removes and returns the keys that waited for the checkpoint which the store holds now.
    pub(crate) fn take_budgeted(&mut self) -> Vec<Slot> {
        let count = self.lacking_budget.len().min(MAX_BUDGETED);
        let budgeted: Vec<Slot> = self.lacking_budget.drain(..count).collect();
        for bucket in &budgeted {
            self.queues.get_mut(bucket).into_iter().for_each(|queue| queue.lacks_budget = false);
        }
        budgeted
    }

    pub(super) fn open(&mut self, bucket: Slot) -> &mut KeyQueue {
        self.queues.entry(bucket).or_default()
    }

    /// Removes the queue of a key unless a request needs it. Returns whether there is none now.
    pub(crate) fn close_deserted(&mut self, bucket: Slot) -> bool {
        let is_deserted = self.get(bucket).is_none_or(KeyQueue::is_deserted);
        if is_deserted {
            self.clear_alarm(bucket);
            self.queues.remove(&bucket);
        }
        is_deserted
    }

    pub(crate) fn buckets(&self) -> impl Iterator<Item = Slot> {
        self.queues.keys().copied()
    }

    pub(crate) fn next_alarm(&self) -> Option<(Time, Slot)> {
        self.alarms.first().copied()
    }

    pub(crate) fn next_alarm_until(&self, latest: Time) -> Option<Slot> {
        self.next_alarm().filter(|(alarm, _)| *alarm <= latest).map(|(_, bucket)| bucket)
    }

    pub(crate) fn set_alarm(&mut self, bucket: Slot, alarm: Time) {
        self.clear_alarm(bucket);
        self.open(bucket).alarm = Some(alarm);
        self.alarms.insert((alarm, bucket));
    }

    pub(crate) fn clear_alarm(&mut self, bucket: Slot) {
        if let Some(before) = self.queues.get_mut(&bucket).and_then(|queue| queue.alarm.take()) {
            assert!(self.alarms.remove(&(before, bucket)), "a key queue with an alarm is in the list of alarms");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::Slab;
    use crate::queue::class_queue::ClassPosition;

    fn waiting(client: &str, serial: u64) -> Waiting<()> {
        Waiting {
            to: (),
            class: ClassId(0),
            arrival: Arrival { at: Time::ORIGIN, serial },
            came: Time::ORIGIN,
            user: None,
            client: Arc::from(client),
            position: ClassPosition::default(),
            deadline: None,
            next_update: None,
            at_key: None,
            call: None,
        }
    }

    /// How many requests are ahead of the first of so many, and of the last.
    fn ahead(count: u64) -> (usize, usize) {
        let (mut queue, slot) = (KeyQueue::default(), Slab::default().insert(()));
        (1..=count).for_each(|serial| queue.join(&waiting("", serial), slot, Credit::ZERO));
        (queue.ahead_of(&waiting("", 1)).count, queue.ahead_of(&waiting("", count)).count)
    }

    #[test]
    fn a_position_is_counted_in_a_short_queue_and_estimated_in_a_long_one() {
        assert_eq!(ahead(MAX_COUNTED as u64 - 1), (0, 254));
        assert_eq!(ahead(MAX_COUNTED as u64), (128, 255));
        assert_eq!(ahead(1000), (500, 999));
    }

    #[test]
    fn the_requests_of_other_clients_count_by_their_turns() {
        let (mut queue, slot) = (KeyQueue::default(), Slab::default().insert(()));
        (1..=100).for_each(|serial| queue.join(&waiting("busy", serial), slot, Credit::ZERO));
        (101..=103).for_each(|serial| queue.join(&waiting("light", serial), slot, Credit::ZERO));
        let ahead = |client, serial| queue.ahead_of(&waiting(client, serial)).count;
        assert_eq!([ahead("light", 101), ahead("light", 103)], [1, 5]);
        assert_eq!([ahead("busy", 1), ahead("busy", 2), ahead("busy", 100)], [0, 2, 102]);
    }

    #[test]
    fn beyond_the_bound_idle_clients_begin_again() {
        let mut turns = KeyTurns::default();
        for number in 0..2 * MAX_IDLE as u64 {
            turns.serve(&Arc::from(number.to_string()), Span::from_nanos(number + 1));
        }
        assert_eq!((turns.idle.len(), turns.clients.len()), (MAX_IDLE, MAX_IDLE));
        assert!(!turns.clients.contains_key("0"));
    }
}
