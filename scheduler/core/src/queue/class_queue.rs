//! The queue of one class: clients share it fairly, and requests of one client keep their order.

use super::clients::{Clients, SliceOutcome};
use super::fair_order::{Arrival, Entry, FairOrder, Turn};
use super::queue_position::{ArrivalPosition, ClientPosition};
use super::waiting_request::{ClassPosition, Waiting};
use crate::collections::Slot;
use crate::ids::LimitId;
use crate::policy::{Bill, Class, LimitSet, Resource};
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// Why a request starts now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartReason {
    /// Its turn has come.
    InTurn,
    /// It has starved for too long.
    Promoted,
    /// It delays no request with an earlier turn. The requests that it passes still count as
    /// starving.
    Backfilled,
}

/// The start of a waiting request.
#[derive(Clone, Copy)]
pub(crate) struct Service {
    pub(crate) now: Time,
    pub(crate) reason: StartReason,
}

impl Service {
    /// When the class was served, unless the request has passed others.
    pub(super) fn ends_starvation(self) -> Option<Time> {
        (self.reason != StartReason::Backfilled).then_some(self.now)
    }
}

/// The requests of one class.
///
/// Invariant: `all` has each request of the class. `order` and `by_client` have those that wait
/// in this queue, and not in the queue of a key.
#[derive(Clone, Debug)]
pub(crate) struct ClassQueue {
    order: FairOrder,
    all: BTreeMap<ArrivalPosition, Slot>,
    by_client: BTreeMap<ClientPosition, Turn>,
    clients: Clients,
    /// By limit, when a request that needs it was last served in its turn or promoted.
    served: Vec<Time>,
}

impl ClassQueue {
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        let limits = resource.limits().len();
        ClassQueue {
            order: FairOrder::default(),
            all: BTreeMap::new(),
            by_client: BTreeMap::new(),
            clients: Clients::new(limits, now),
            served: vec![now; limits],
        }
    }

    /// All requests of the class, here and in key queues, in the order in which they came.
    pub(super) fn in_order_of_coming(&self) -> Vec<Slot> {
        let mut all: Vec<(Arrival, Slot)> = self.all.iter().map(|(position, slot)| (position.came, *slot)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, slot)| slot).collect()
    }

    pub(super) fn enter<R>(&mut self, resource: &Resource, slot: Slot, bill: &Arc<Bill>, waiting: &mut Waiting<R>) {
        let (set, arrival) = (bill.charged().fold(LimitSet::NONE, LimitSet::with), waiting.arrival);
        // Requests that need no other limits may be behind the clock, because they wait. A slice
        // begins no later than the first of these.
        let first = self.order.first_among(|needs| needs.without(set) == LimitSet::NONE);
        let service = resource.weight(&waiting.client).weighted(resource.dominant_share(bill));
        let slice = self.clients.join(&waiting.client, set, first.map(|entry| entry.turn.tag), service);
        let turn = Turn { tag: slice.begin, returning: slice.returning, arrival };
        waiting.position = ClassPosition { turn, slice, set, tree: self.order.tree_for(set) };
        // A request with an age goes right before its client's requests that came later.
        let own = waiting.client_position();
        let last = own.last();
        if let Some((_, next)) = self.by_client.range(own..last).next() {
            waiting.position.turn = Turn { arrival, ..*next };
        }
        self.join(resource, slot, bill, waiting);
    }

    fn join<R>(&mut self, resource: &Resource, slot: Slot, bill: &Arc<Bill>, waiting: &mut Waiting<R>) {
        let ClassPosition { turn, tree, .. } = waiting.position;
        self.order.insert(resource, tree, Entry { turn, slot, bill: Arc::clone(bill) });
        assert_eq!(self.all.insert(waiting.position_in_class(), slot), None, "a request waits once");
        assert_eq!(self.by_client.insert(waiting.client_position(), turn), None, "a request has one turn");
    }

    /// Removes a request, which is served at this time or leaves unserved.
    pub(super) fn leave<R>(&mut self, resource: &Resource, waiting: &Waiting<R>, served: Option<Service>) {
        self.take_out(resource, waiting);
        let ClassPosition { turn, slice, set, .. } = waiting.position;
        let client = &waiting.client;
        if let Some(now) = served.and_then(Service::ends_starvation) {
            set.limits().for_each(|limit| self.served[limit.index()] = now);
        }
        match served {
            Some(Service { now, reason: StartReason::InTurn }) => {
                self.clients.serve(now, client, set, slice, turn.tag);
            }
            // This request has passed others with earlier turns, and the clocks must not pass these
            // turns.
            Some(Service { reason: StartReason::Promoted | StartReason::Backfilled, .. }) => {
                self.clients.leave(client, slice, SliceOutcome::Used);
            }
            None => self.clients.leave(client, slice, SliceOutcome::Unused),
        }
        if self.has_no_turns() {
            self.clients.forget_all();
        }
    }

    /// Notes that a request of the class is in the queue of a key.
    pub(super) fn join_key_wait<R>(&mut self, slot: Slot, waiting: &Waiting<R>) {
        assert_eq!(self.all.insert(waiting.position_at_key(), slot), None, "a request waits once");
    }

    /// Notes that a request of the class has left the queue of a key.
    pub(super) fn leave_key_wait<R>(&mut self, waiting: &Waiting<R>) {
        assert!(self.all.remove(&waiting.position_at_key()).is_some(), "a request that leaves a key has waited for it");
    }

    pub(crate) fn contended(&self) -> LimitSet {
        self.clients.contended()
    }

    pub(super) fn set_contended(&mut self, now: Time, contended: LimitSet) {
        self.clients.set_contended(now, contended);
    }

    /// For each contended limit that the request needs, how long earlier turns take at the recent
    /// pace of the limit's clock.
    pub(crate) fn taken_before(&self, position: &ClassPosition) -> impl Iterator<Item = (LimitId, Span)> {
        let turn = position.turn.tag;
        let contended = if self.clients.are_several() { self.clients.contended() } else { LimitSet::NONE };
        position.set.and(contended).limits().filter_map(move |limit| {
            let first = self.order.first_among(|needs| needs.has(limit))?.turn.tag;
            Some((limit, self.clients.clock(limit).time_for(turn.since(first))))
        })
    }

    /// Takes a request out of the queue, as if it had not entered.
    fn take_out<R>(&mut self, resource: &Resource, waiting: &Waiting<R>) {
        let ClassPosition { turn, tree, .. } = waiting.position;
        let slot = self.all.remove(&waiting.position_in_class()).expect("a request that leaves a queue was in it");
        self.order.remove(resource, tree, turn, slot);
        let turn_of_client = self.by_client.remove(&waiting.client_position());
        assert_eq!(turn_of_client, Some(turn), "a request has the same turn among those of its client");
        assert_eq!(self.by_client.len(), self.order.len(), "both orders have the same requests");
    }

    /// The first request that needs none of the blocked limits.
    pub(crate) fn first(&self, blocked: LimitSet) -> Option<Slot> {
        self.order.first_among(|needs| needs.avoids(blocked)).map(|entry| entry.slot)
    }

    /// The oldest request of each set of limits that meets `limits`, here and in key queues.
    pub(crate) fn needing(&self, limits: LimitSet) -> impl Iterator<Item = Slot> {
        self.oldest_of_each().filter(move |(position, _)| !position.tree.avoids(limits)).map(|(_, slot)| slot)
    }

    /// The clients whose requests wait here and not for a key, by name.
    pub(crate) fn waiting_clients(&self) -> impl Iterator<Item = Arc<str>> {
        let mut last = ClientPosition::last_of_client(Arc::from(""));
        std::iter::from_fn(move || {
            let (next, _) = self.by_client.range((Excluded(last.clone()), Unbounded)).next()?;
            last.client = Arc::clone(&next.client);
            Some(Arc::clone(&next.client))
        })
    }

    /// Whether no request of the same tree is ahead.
    pub(super) fn leads<R>(&self, waiting: &Waiting<R>) -> bool {
        let first = self.order.first_among(|needs| needs == waiting.position.tree);
        first.is_some_and(|entry| entry.turn == waiting.position.turn)
    }

    /// When the oldest request of each set of limits is promoted. By then the request has waited
    /// for `max_starvation`, and its limits have served no request of its class for as long.
    pub(crate) fn promotions(&self, class: &Class) -> impl Iterator<Item = (Time, Slot)> {
        self.order.sets().filter_map(move |set| {
            let first = ArrivalPosition { tree: set, ..ArrivalPosition::FIRST };
            let (oldest, slot) = self.all.range(first..).next()?;
            Some((class.promotes_at(oldest.came.at, self.last_served(set))?, *slot))
        })
    }

    /// The earliest of the times at which each contended limit of the set last served a request.
    /// Without contention, all limits of the set count.
    fn last_served(&self, set: LimitSet) -> Time {
        let contended = set.and(self.clients.contended());
        let waited_for = if contended == LimitSet::NONE { set } else { contended };
        let served = self.served.iter().enumerate();
        let served = served.filter(|(index, _)| waited_for.has(LimitId::of_index(*index))).map(|(_, at)| *at);
        served.min().unwrap_or(Time::ORIGIN)
    }

    pub(crate) fn oldest(&self) -> Option<Arrival> {
        self.oldest_of_each().map(|(position, _)| position.came).min()
    }

    /// The oldest request of each tree, here and in key queues.
    fn oldest_of_each(&self) -> impl Iterator<Item = (ArrivalPosition, Slot)> {
        let mut from = ArrivalPosition::FIRST;
        std::iter::from_fn(move || {
            let (position, slot) = self.all.range(from..).next()?;
            from = position.last_of_tree();
            Some((*position, *slot))
        })
    }

    /// How many requests of the class wait, here and in key queues.
    pub(crate) fn waiting(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn waiting_for_keys(&self) -> impl Iterator<Item = Slot> {
        self.all.range(ArrivalPosition::FIRST_AT_KEY..).map(|(_, slot)| *slot)
    }

    pub(crate) fn order(&self) -> &FairOrder {
        &self.order
    }

    /// Whether no request waits in this queue itself. Requests in key queues do not count.
    pub(crate) fn has_no_turns(&self) -> bool {
        self.order.len() == 0
    }
}
