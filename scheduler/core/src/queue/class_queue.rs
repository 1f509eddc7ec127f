//! The queue of one class: clients share it fairly, and requests of one client keep their order.

use crate::collections::Slot;
use crate::identity::User;
use crate::queue::clients::{Clients, Slice, SliceOutcome};
use crate::queue::fair_order::{Arrival, Entry, FairOrder, Needs, Turn};
use rampmeter_policy::ids::{ClassId, LimitId};
use rampmeter_policy::{Bill, Call, Class, LimitSet, Resource};
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// Why a request starts now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartReason {
    InTurn,
    Promoted,
    /// It delays no earlier turn. The requests that it passes still count as starving.
    Backfilled,
}

#[derive(Clone, Copy)]
pub(crate) struct Service {
    pub(crate) now: Time,
    pub(crate) reason: StartReason,
}

impl Service {
    /// Returns when the class was served, unless the request has passed others.
    pub(super) fn ends_starvation(self) -> Option<Time> {
        (self.reason != StartReason::Backfilled).then_some(self.now)
    }
}

/// The requests of one class.
/// Invariant: `all` has each request of the class. `order` and `by_client` have those that wait in
/// this queue, and not in the queue of a key.
#[derive(Clone, Debug)]
pub(crate) struct ClassQueue {
    pub(crate) order: FairOrder,
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

    /// Drops all requests, and the service of their clients.
    pub(super) fn empty(&mut self, resource: &Resource, now: Time) {
        *self = ClassQueue::new(resource, now);
    }

    /// Returns all requests of the class, here and in key queues, in the order in which they came.
    pub(super) fn in_order_of_coming(&self) -> Vec<Slot> {
        let mut all: Vec<(Arrival, Slot)> = self.all.iter().map(|(position, slot)| (position.came, *slot)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Enqueues a request. Returns whether no request of the same tree is ahead.
    pub(crate) fn enter<R>(
        &mut self,
        resource: &Resource,
        slot: Slot,
        bill: &Arc<Bill>,
        waiting: &mut Waiting<R>,
    ) -> bool {
        let (needs, arrival) = (Needs::of(bill), waiting.arrival);
        let set = needs.any;
        // Requests that need no other limits may be behind the clock, because they wait. A slice
        // begins no later than the first of these.
        let first = self.order.first_among(|needs| needs.any.without(set) == LimitSet::NONE);
        let service = resource.weight(&waiting.client).weighted(resource.dominant_share(bill));
        let slice = self.clients.join(&waiting.client, set, first.map(|entry| entry.turn.tag), service);
        let turn = Turn { tag: slice.begin, returning: slice.returning, arrival };
        waiting.position = ClassPosition { turn, slice, set, tree: self.order.tree_for(needs) };
        // A request with an age goes right before its client's requests that came later.
        let own = waiting.client_position();
        let last = ClientPosition { arrival: Arrival::LAST, ..own.clone() };
        if let Some((_, next)) = self.by_client.range(own..last).next() {
            waiting.position.turn = Turn { arrival, ..*next };
        }
        let ClassPosition { turn, tree, .. } = waiting.position;
        self.order.insert(resource, tree, Entry { turn, slot, bill: Arc::clone(bill) });
        assert_eq!(self.all.insert(waiting.arrival_position(), slot), None, "a request waits once");
        assert_eq!(self.by_client.insert(waiting.client_position(), turn), None, "a request has one turn");
        self.order.first_among(|needs| needs == tree).is_some_and(|first| first.turn == turn)
    }

    /// Removes a request, which leaves unserved or gets a start that takes from the limits of `set`.
    pub(super) fn leave<R>(
        &mut self,
        resource: &Resource,
        waiting: &Waiting<R>,
        served: Option<Service>,
        set: LimitSet,
    ) {
        self.take_out(resource, waiting);
        let ClassPosition { turn, slice, .. } = waiting.position;
        let client = &waiting.client;
        if let Some(now) = served.and_then(Service::ends_starvation) {
            set.limits().for_each(|limit| self.served[limit.index()] = now);
        }
        match served {
            Some(Service { now, reason: StartReason::InTurn }) => {
                self.clients.serve(now, client, set, slice, turn.tag);
            }
            // This request has passed others with earlier turns, which the clocks must not pass.
            Some(Service { reason: StartReason::Promoted | StartReason::Backfilled, .. }) => {
                self.clients.leave(client, slice, SliceOutcome::Used);
            }
            None => self.clients.leave(client, slice, SliceOutcome::Unused),
        }
        if self.has_no_turns() {
            self.clients.forget_all();
        }
    }

    /// Notes that a request of the class has joined the queue of a key.
    pub(super) fn join_key_wait<R>(&mut self, slot: Slot, waiting: &Waiting<R>) {
        assert_eq!(self.all.insert(waiting.arrival_position(), slot), None, "a request waits once");
    }

    pub(super) fn leave_key_wait<R>(&mut self, waiting: &Waiting<R>) {
        assert!(
            self.all.remove(&waiting.arrival_position()).is_some(),
            "a request that leaves a key has waited for it"
        );
    }

    pub(crate) fn contended(&self) -> LimitSet {
        self.clients.contended
    }

    pub(crate) fn set_contended(&mut self, now: Time, contended: LimitSet) {
        self.clients.set_contended(now, contended);
    }

    /// Returns for each contended limit that the request needs how long earlier turns take at the
    /// recent pace of the limit's clock.
    pub(crate) fn taken_before(&self, position: &ClassPosition) -> impl Iterator<Item = (LimitId, Span)> {
        let turn = position.turn.tag;
        // Later requests go first only if there are several clients.
        let contended = if self.clients.clients.len() > 1 { self.clients.contended } else { LimitSet::NONE };
        position.set.and(contended).limits().filter_map(move |limit| {
            let first = self.order.first_among(|needs| needs.any.has(limit))?.turn.tag;
            Some((limit, self.clients.clock(limit).time_for(turn.since(first))))
        })
    }

    /// Removes a request, as if it had not entered.
    fn take_out<R>(&mut self, resource: &Resource, waiting: &Waiting<R>) {
        let ClassPosition { turn, tree, .. } = waiting.position;
        let slot = self.all.remove(&waiting.arrival_position()).expect("a request that leaves a queue was in it");
        self.order.remove(resource, tree, turn, slot);
        let turn_of_client = self.by_client.remove(&waiting.client_position());
        assert_eq!(turn_of_client, Some(turn), "a request has the same turn among those of its client");
        assert_eq!(self.by_client.len(), self.order.len(), "both orders have the same requests");
    }

    /// Returns the oldest request of each set that meets `limits`, here and in key queues.
    pub(crate) fn needing(&self, limits: LimitSet) -> impl Iterator<Item = Slot> {
        self.oldest_of_each().filter(move |(position, _)| !position.tree.any.avoids(limits)).map(|(_, slot)| slot)
    }

    /// Returns the clients whose requests wait here and not for a key, by name.
    pub(crate) fn waiting_clients(&self) -> impl Iterator<Item = Arc<str>> {
        let (tree, arrival) = (Needs::ALL, Arrival::LAST);
        let mut last = ClientPosition { client: Arc::from(""), tree, arrival };
        std::iter::from_fn(move || {
            let (next, _) = self.by_client.range((Excluded(last.clone()), Unbounded)).next()?;
            last.client = Arc::clone(&next.client);
            Some(Arc::clone(&next.client))
        })
    }

    /// Returns when the oldest request of each set of limits is promoted: it has waited for
    /// `max_starvation`, and its limits have served no request of its class for as long.
    pub(crate) fn promotions(&self, class: &Class) -> impl Iterator<Item = (Time, Slot)> {
        self.order.sets().filter_map(move |set| {
            let first = ArrivalPosition { tree: set, ..ArrivalPosition::FIRST };
            let (oldest, slot) = self.all.range(first..).next()?;
            Some((class.promotes_at(oldest.came.at, self.last_served(set))?, *slot))
        })
    }

    /// Returns the earliest of the times at which each contended limit of the set last served a
    /// request, but of limits that not every alternative needs, the latest. Without contention, all
    /// limits of the set count.
    fn last_served(&self, needs: Needs) -> Time {
        let contended = needs.any.and(self.clients.contended);
        let waited_for = if contended == LimitSet::NONE { needs.any } else { contended };
        let served = |set: LimitSet| waited_for.and(set).limits().map(|limit| self.served[limit.index()]);
        let of_some = served(needs.any.without(needs.all)).max();
        served(needs.all).chain(of_some).min().unwrap_or(Time::ORIGIN)
    }

    pub(crate) fn oldest(&self) -> Option<Arrival> {
        self.oldest_of_each().map(|(position, _)| position.came).min()
    }

    fn oldest_of_each(&self) -> impl Iterator<Item = (ArrivalPosition, Slot)> {
        let mut from = ArrivalPosition::FIRST;
        std::iter::from_fn(move || {
            let (position, slot) = self.all.range(from..).next()?;
            from = ArrivalPosition { came: Arrival::LAST, ..*position };
            Some((*position, *slot))
        })
    }

    /// Counts the waiting requests of the class, here and in key queues.
    pub(crate) fn waiting(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn waiting_for_keys(&self) -> impl Iterator<Item = Slot> {
        let first = ArrivalPosition { is_at_key: true, ..ArrivalPosition::FIRST };
        self.all.range(first..).map(|(_, slot)| *slot)
    }

    /// Whether no request waits in this queue itself. Requests in key queues do not count.
    pub(crate) fn has_no_turns(&self) -> bool {
        self.order.len() == 0
    }
}

/// A position among all requests of a class: those in key queues last, then by tree in the fair
/// order, then by when this scheduler received them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ArrivalPosition {
    is_at_key: bool,
    tree: Needs,
    came: Arrival,
}

impl ArrivalPosition {
    const FIRST: ArrivalPosition = ArrivalPosition { is_at_key: false, tree: Needs::NONE, came: Arrival::FIRST };
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClientPosition {
    client: Arc<str>,
    tree: Needs,
    arrival: Arrival,
}

/// The state of a waiting request, besides its id and bill.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<R> {
    pub(crate) to: R,
    pub(crate) class: ClassId,
    /// Its place among the requests of its client, by its age.
    pub(crate) arrival: Arrival,
    /// When this scheduler received it. No client gets ahead of another by the age that it states.
    pub(crate) came: Time,
    pub(crate) user: Option<User>,
    pub(crate) client: Arc<str>,
    pub(crate) position: ClassPosition,
    pub(crate) deadline: Option<Time>,
    pub(crate) next_update: Option<Time>,
    /// The key in whose queue the request waits, if not in that of its class.
    pub(crate) at_key: Option<Slot>,
    pub(crate) call: Option<Box<Call>>,
}

impl<R> Waiting<R> {
    fn client_position(&self) -> ClientPosition {
        let client = Arc::clone(&self.client);
        ClientPosition { client, tree: self.position.tree, arrival: self.arrival }
    }

    fn arrival_position(&self) -> ArrivalPosition {
        let came = Arrival { at: self.came, serial: self.arrival.serial };
        ArrivalPosition { is_at_key: self.at_key.is_some(), tree: self.position.tree, came }
    }
}

/// The position of a request in the queue of its class, once it has entered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassPosition {
    pub(crate) turn: Turn,
    pub(super) slice: Slice,
    pub(crate) set: LimitSet,
    pub(crate) tree: Needs,
}
