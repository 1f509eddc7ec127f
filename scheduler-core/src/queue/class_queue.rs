//! Requests that wait for their turn.

use super::clients::{Clients, Slice};
use super::fair_order::{Entry, FairOrder, Turn};
use crate::collections::Slot;
use crate::ids::{ClassId, LimitId};
use crate::policy::{Bill, Call, Class, LimitSet, Resource};
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of a waiting request beside its id and bill.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<R> {
    pub(crate) to: R,
    pub(crate) class: ClassId,
    pub(crate) arrival: Arrival,
    pub(crate) client: Arc<str>,
    pub(crate) position: ClassPosition,
    pub(crate) deadline: Option<Time>,
    /// Whether it wants to be told how it stands.
    pub(crate) progress: bool,
    /// The start that it was last told to expect.
    pub(crate) told: Option<Time>,
    /// The key at whose gate it stands, where it is not in the line of its class.
    pub(crate) at_key: Option<Slot>,
    /// What it is for, where its bill does not tell.
    pub(crate) call: Option<Box<Call>>,
}

impl<R> Waiting<R> {
    fn urgency(&self) -> Urgency {
        (Arc::clone(&self.client), self.position.tree, self.deadline.unwrap_or(Time::NEVER), self.arrival)
    }
}

/// A place by arrival, less the age that a request brought along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    pub(crate) serial: u64,
}

impl Arrival {
    pub(crate) const FIRST: Arrival = Arrival { at: Time::ORIGIN, serial: 0 };
    pub(crate) const LAST: Arrival = Arrival { at: Time::NEVER, serial: u64::MAX };
}

/// Where a request stands among the others of its class, once it has entered the line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassPosition {
    pub(crate) turn: Turn,
    slice: Slice,
    pub(crate) set: LimitSet,
    /// The tree of the order that it belongs to.
    tree: LimitSet,
}

/// Among a client's requests that need the same limits: those without a deadline come last.
type Urgency = (Arc<str>, LimitSet, Time, Arrival);

/// Why somebody goes next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartReason {
    /// Its turn has come.
    InTurn,
    /// It has starved long enough.
    Promoted,
    /// It delays nobody whose turn comes before. To those whom it passes it is of no use that their class was served.
    Backfilled,
}

/// The line of one class: clients share it fairly, each is served first come, first served.
#[derive(Clone, Debug)]
pub(crate) struct ClassQueue {
    order: FairOrder,
    /// Everybody of the class, by whether they stand aside at gates of keys, by the limits that they need, and by arrival.
    places: BTreeMap<(bool, LimitSet, Arrival), Slot>,
    /// Those in the order.
    by_urgency: BTreeMap<Urgency, (Turn, Slot)>,
    clients: Clients,
    /// By limit, when a request that needs it was last given a start while others waited.
    served: Vec<Time>,
}

impl ClassQueue {
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        let limits = resource.limits().len();
        ClassQueue {
            order: FairOrder::default(),
            places: BTreeMap::new(),
            by_urgency: BTreeMap::new(),
            clients: Clients::new(limits, now),
            served: vec![now; limits],
        }
    }

    /// A request takes its place in line.
    pub(crate) fn enter<R>(&mut self, resource: &Resource, slot: Slot, bill: &Arc<Bill>, waiting: &mut Waiting<R>) {
        let (set, arrival) = (LimitSet::of(bill), waiting.arrival);
        // Nobody begins behind those who wait for none but the same limits.
        let first = self.order.first_among(|needs| needs.without(set) == LimitSet::default());
        let service = resource.weight(&waiting.client).weighted(resource.dominant_share(bill));
        let slice = self.clients.join(&waiting.client, set, first.map(|entry| entry.turn.tag), service);
        let turn = Turn { tag: slice.begin, returning: slice.returning, arrival };
        waiting.position = ClassPosition { turn, slice, set, tree: self.order.tree_for(set) };
        // One that has waited elsewhere goes right ahead of those of its client's that came later.
        let own = waiting.urgency();
        let last = (Arc::clone(&own.0), own.1, Time::NEVER, Arrival::LAST);
        let next = self.by_urgency.range(own..last).next().map(|(_, (turn, _))| *turn);
        if let Some(next) = next.filter(|next| next.arrival > arrival) {
            waiting.position.turn = Turn { arrival, ..next };
        }
        self.join(resource, slot, bill, waiting);
    }

    pub(crate) fn join<R>(&mut self, resource: &Resource, slot: Slot, bill: &Arc<Bill>, waiting: &Waiting<R>) {
        let ClassPosition { turn, tree, .. } = waiting.position;
        self.order.insert(resource, tree, Entry { turn, slot, bill: Arc::clone(bill) });
        self.places.insert((false, tree, waiting.arrival), slot);
        self.by_urgency.insert(waiting.urgency(), (turn, slot));
    }

    /// Takes out one that was served at a time, or not at all.
    pub(crate) fn leave<R>(&mut self, resource: &Resource, waiting: &Waiting<R>, served: Option<(Time, StartReason)>) {
        self.take_out(resource, waiting);
        let ClassPosition { turn, slice, set, .. } = waiting.position;
        if let Some((now, StartReason::InTurn | StartReason::Promoted)) = served {
            set.limits().for_each(|limit| self.served[limit.index()] = now);
        }
        match served {
            Some((now, StartReason::InTurn)) => self.clients.serve(now, &waiting.client, set, slice, turn.tag),
            // Whoever it has passed must not find the clocks ahead of its own.
            Some((_, StartReason::Promoted | StartReason::Backfilled)) => {
                self.clients.leave(&waiting.client, slice, true);
            }
            None => self.clients.leave(&waiting.client, slice, false),
        }
        if self.is_empty() {
            self.clients.forget_all();
        }
    }

    /// Notes that a request which has left stands at a gate, or does so no more.
    pub(crate) fn note_key_wait<R>(&mut self, slot: Slot, waiting: &Waiting<R>, stands: bool) {
        let arrival = (true, waiting.position.tree, waiting.arrival);
        match stands {
            true => self.places.insert(arrival, slot),
            false => self.places.remove(&arrival),
        };
    }

    /// The limits that somebody is held for.
    pub(crate) fn held(&self) -> LimitSet {
        self.clients.held()
    }

    /// Takes note of the limits that somebody is held for.
    pub(crate) fn hold(&mut self, now: Time, held: LimitSet) {
        self.clients.hold(now, held);
    }

    /// How long it will be until this turn, as fast as turns have come of late; nothing where others are not to come
    /// first, or that is not known yet.
    pub(crate) fn time_until(&self, position: &ClassPosition) -> Option<Span> {
        let until = |limit: LimitId| {
            let first = self.order.first_among(|needs| needs.has(limit))?.turn.tag;
            let distance = position.turn.tag.since(first);
            if distance == Span::ZERO { None } else { self.clients.clock(limit).time_for(distance) }
        };
        position.set.and(self.clients.held()).limits().filter_map(until).max()
    }

    pub(crate) fn take_out<R>(&mut self, resource: &Resource, waiting: &Waiting<R>) {
        let ClassPosition { turn, tree, .. } = waiting.position;
        let slot = self.places.remove(&(false, tree, waiting.arrival)).expect("who leaves a queue was in it");
        self.order.remove(resource, tree, turn, slot);
        self.by_urgency.remove(&waiting.urgency());
    }

    /// The first who needs nothing of what is blocked.
    pub(crate) fn first(&self, blocked: LimitSet) -> Option<Slot> {
        self.order.first_among(|needs| needs.avoids(blocked)).map(|entry| entry.slot)
    }

    /// Requests that need something of `limits`, in line or aside: of each set of limits the oldest.
    pub(crate) fn needing(&self, limits: LimitSet) -> impl Iterator<Item = Slot> {
        self.oldest_of_each().filter(move |((_, needs, _), _)| !needs.avoids(limits)).map(|(_, slot)| slot)
    }

    /// Whether nobody who needs the same limits is ahead.
    pub(crate) fn leads<R>(&self, waiting: &Waiting<R>) -> bool {
        let first = self.order.first_among(|needs| needs == waiting.position.tree);
        first.is_some_and(|entry| entry.turn == waiting.position.turn)
    }

    /// Who takes the turn of `waiting`, if another of the same client has an earlier deadline.
    pub(crate) fn due_before<R>(&self, waiting: &Waiting<R>) -> Option<Slot> {
        let own = waiting.deadline.map(|_| waiting.urgency())?;
        let first = (Arc::clone(&own.0), own.1, Time::ORIGIN, Arrival::FIRST);
        self.by_urgency.range(first..own).next().map(|(_, (_, slot))| *slot)
    }

    /// When the oldest of those who need the same limits goes ahead of everybody: it has waited for `max_starvation`, and so long no
    /// other of its class was served that needs what it waits for.
    pub(crate) fn promotions(&self, class: &Class) -> impl Iterator<Item = (Time, Slot)> {
        class.max_starvation.into_iter().flat_map(move |most| {
            self.order.sets().filter_map(move |set| {
                let ((.., oldest), slot) = self.places.range((false, set, Arrival::FIRST)..).next()?;
                Some((oldest.at.max(self.last_served(set)) + most, *slot))
            })
        })
    }

    /// When a request was last served that needs the same of what others are held for; where none is held, of anything.
    fn last_served(&self, set: LimitSet) -> Time {
        let contended = set.and(self.clients.held());
        let waited_for = if contended == LimitSet::default() { set } else { contended };
        let served = self.served.iter().enumerate();
        let served = served.filter(|(index, _)| waited_for.has(LimitId(*index as u8))).map(|(_, at)| *at);
        served.min().unwrap_or(Time::ORIGIN)
    }

    /// When the oldest of the class came.
    pub(crate) fn oldest(&self) -> Option<Arrival> {
        self.oldest_of_each().map(|((.., arrival), _)| arrival).min()
    }

    /// Of each set of limits the oldest that needs it, in line and aside.
    fn oldest_of_each(&self) -> impl Iterator<Item = ((bool, LimitSet, Arrival), Slot)> {
        let mut from = (false, LimitSet::default(), Arrival::FIRST);
        std::iter::from_fn(move || {
            let (key, slot) = self.places.range(from..).next()?;
            from = (key.0, key.1, Arrival::LAST);
            Some((*key, *slot))
        })
    }

    /// How many of the class wait, in line and at gates.
    pub(crate) fn waiting(&self) -> usize {
        self.places.len()
    }

    /// Everybody of the class, by arrival.
    pub(crate) fn by_arrival(&self) -> Vec<Slot> {
        let mut all: Vec<(Arrival, Slot)> = self.places.iter().map(|((.., arrival), slot)| (*arrival, *slot)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Those of the class that stand at gates of keys.
    pub(crate) fn waiting_for_keys(&self) -> impl Iterator<Item = Slot> {
        self.places.range((true, LimitSet::default(), Arrival::FIRST)..).map(|(_, slot)| *slot)
    }

    /// Those in line.
    pub(crate) fn order(&self) -> &FairOrder {
        &self.order
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.len() == 0
    }
}
