//! Requests that wait for their turn.

use crate::bill::Bill;
use crate::clients::{Clients, Newcomer, Slice};
use crate::ledger::Backlog;
use crate::limit_set::{Kinds, LimitSet, LimitSets};
use crate::order::{Ahead, Entry, Order, Turn};
use crate::pace::Pace;
use crate::resource::{Class, ClassId, LimitId, Resource};
use crate::rules::Call;
use crate::slab::Slot;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of a waiting request beside its id and bill.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<R> {
    pub(crate) to: R,
    pub(crate) class: ClassId,
    pub(crate) place: Place,
    pub(crate) client: Arc<str>,
    pub(crate) standing: Standing,
    pub(crate) deadline: Option<Time>,
    /// Whether it wants to be told how it stands.
    pub(crate) progress: bool,
    /// The start that it was last told to expect.
    pub(crate) told: Option<Time>,
    /// The key at whose gate it stands, where it is not in the line of its class.
    pub(crate) aside: Option<Slot>,
    /// What it is for, where its bill does not tell.
    pub(crate) call: Option<Box<Call>>,
}

/// A place by arrival, less the age that a request brought along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) arrived: Time,
    pub(crate) serial: u64,
}

impl Place {
    pub(crate) const FIRST: Place = Place { arrived: Time::ORIGIN, serial: 0 };
    pub(crate) const LAST: Place = Place { arrived: Time::NEVER, serial: u64::MAX };
}

/// Where a request stands among the others of its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) turn: Turn,
    slice: Slice,
    pub(crate) set: LimitSet,
    kind: Kinds,
}

/// By what a client's requests with deadlines take their turns, among those that need the same limits.
type Urgency = (Arc<str>, Kinds, Time, Place);

fn urgency<R>(waiting: &Waiting<R>) -> Option<Urgency> {
    Some((Arc::clone(&waiting.client), waiting.standing.kind, waiting.deadline?, waiting.place))
}

/// The line of one class: clients share it fairly, each is served first come, first served.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    order: Order,
    /// Those in the order, by the limits that they need and by arrival.
    places: BTreeMap<(Kinds, Place), Slot>,
    /// Those of the class that stand at gates of keys instead.
    pub(crate) aside: BTreeMap<Place, Slot>,
    /// The turns of each client's, by arrival.
    turns: BTreeMap<(Arc<str>, Place), Turn>,
    due: BTreeMap<Urgency, Slot>,
    clients: Clients,
    sets: LimitSets,
    /// By limit.
    paces: Vec<Pace>,
    /// By limit, when a request that needs it was last given a start while others waited.
    served: Vec<Time>,
}

impl Line {
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        let limits = resource.limits().len();
        Line {
            order: Order::new(),
            places: BTreeMap::new(),
            aside: BTreeMap::new(),
            turns: BTreeMap::new(),
            due: BTreeMap::new(),
            clients: Clients::default(),
            sets: LimitSets::default(),
            paces: vec![Pace::new(now); limits],
            served: vec![now; limits],
        }
    }

    /// Where a newcomer of `client` will stand, once it [joins](Line::join).
    pub(crate) fn stand(&mut self, resource: &Resource, client: &Arc<str>, place: Place, bill: &Bill) -> Standing {
        let set = LimitSet::of(bill);
        // Nobody begins behind those who wait for none but the same limits.
        let first = self.order.first_among(self.sets.within(set)).map(|entry| entry.turn.tag);
        let (share, weight) = (resource.dominant_share(bill), resource.weight(client));
        let slice = self.clients.join(client, Newcomer { set, first, share, weight });
        let own = Turn { tag: slice.begin, returning: slice.returning, place };
        // One that has waited elsewhere goes right ahead of those of its client's that came later.
        let later = (Arc::clone(client), place)..(Arc::clone(client), Place::LAST);
        let turn = self.turns.range(later).next().map_or(own, |(_, later)| Turn { place, ..*later });
        Standing { turn, slice, set, kind: self.sets.kind(set) }
    }

    pub(crate) fn join<R>(&mut self, resource: &Resource, slot: Slot, bill: &Arc<Bill>, waiting: &Waiting<R>) {
        let Standing { turn, set, kind, .. } = waiting.standing;
        self.order.insert(resource, Entry { turn, slot, bill: Arc::clone(bill), kind });
        self.sets.enter(kind, set);
        self.places.insert((kind, waiting.place), slot);
        self.turns.insert((Arc::clone(&waiting.client), waiting.place), turn);
        self.due.extend(urgency(waiting).map(|urgency| (urgency, slot)));
    }

    /// Takes out one that was not served.
    pub(crate) fn leave<R>(&mut self, resource: &Resource, waiting: &Waiting<R>) {
        self.take_out(resource, waiting);
        self.clients.give_up(&waiting.client, waiting.standing.slice);
        self.end_if_empty();
    }

    /// Takes out one that was served in its turn.
    pub(crate) fn serve<R>(&mut self, resource: &Resource, now: Time, waiting: &Waiting<R>) {
        self.take_out(resource, waiting);
        let Standing { turn, slice, set, .. } = waiting.standing;
        self.note_served(now, set);
        self.clients.serve(&waiting.client, set, slice, turn.tag);
        for limit in set.and(self.clients.held()).limits() {
            let clock = self.clients.clock(limit);
            self.paces[limit.index()].note(now, clock);
        }
        self.end_if_empty();
    }

    /// Takes out one that was served before its turn. Whoever it has passed must not find the clocks ahead of its own.
    pub(crate) fn promote<R>(&mut self, resource: &Resource, now: Time, waiting: &Waiting<R>) {
        self.note_served(now, waiting.standing.set);
        self.pass(resource, waiting);
    }

    /// The same for one that has passed others who go on waiting for their turns: that their class was served is of no use to them.
    pub(crate) fn pass<R>(&mut self, resource: &Resource, waiting: &Waiting<R>) {
        self.take_out(resource, waiting);
        self.clients.promote(&waiting.client, waiting.standing.slice);
        self.end_if_empty();
    }

    fn note_served(&mut self, now: Time, set: LimitSet) {
        set.limits().for_each(|limit| self.served[limit.index()] = now);
    }

    /// The limits that somebody is held for.
    pub(crate) fn held(&self) -> LimitSet {
        self.clients.held()
    }

    /// Takes note of the limits that somebody is held for.
    pub(crate) fn hold(&mut self, now: Time, held: LimitSet) {
        let new = held.without(self.clients.held());
        self.clients.hold(held);
        for limit in new.limits() {
            let clock = self.clients.clock(limit);
            self.paces[limit.index()].restart(now, clock);
        }
    }

    /// Nobody waits any more: what clients have had is forgotten, and the clocks begin anew.
    fn end_if_empty(&mut self) {
        if self.places.is_empty() {
            self.clients.forget_all();
        }
    }

    /// How long it will be until this turn, as fast as turns have come of late; nothing where others are not to come
    /// first, or that is not known yet.
    pub(crate) fn time_until(&self, standing: &Standing) -> Option<Span> {
        let until = |limit: LimitId| {
            let first = self.order.first_among(self.sets.needing(limit))?.turn.tag;
            let distance = standing.turn.tag.since(first);
            if distance == Span::ZERO { None } else { self.paces[limit.index()].time_for(distance) }
        };
        standing.set.and(self.clients.held()).limits().filter_map(until).max()
    }

    pub(crate) fn take_out<R>(&mut self, resource: &Resource, waiting: &Waiting<R>) {
        let Standing { turn, kind, .. } = waiting.standing;
        let known = self.places.remove(&(kind, waiting.place));
        assert!(known.is_some(), "who leaves a line was in it");
        self.order.remove(resource, turn);
        self.sets.leave(kind);
        self.turns.remove(&(Arc::clone(&waiting.client), waiting.place));
        if let Some(urgency) = urgency(waiting) {
            self.due.remove(&urgency);
        }
    }

    /// The first who needs nothing of what is blocked.
    pub(crate) fn first(&self, blocked: LimitSet) -> Option<Slot> {
        self.order.first_among(self.sets.avoiding(blocked)).map(|entry| entry.slot)
    }

    /// The first who needs `limit`.
    pub(crate) fn first_needing(&self, limit: LimitId) -> Option<Slot> {
        self.order.first_among(self.sets.needing(limit)).map(|entry| entry.slot)
    }

    /// Whether nobody who needs the same limits is ahead.
    pub(crate) fn leads<R>(&self, waiting: &Waiting<R>) -> bool {
        let first = self.order.first_among(waiting.standing.kind);
        first.is_some_and(|entry| entry.turn == waiting.standing.turn)
    }

    /// Who takes the turn of `waiting`, if another of the same client has an earlier deadline.
    pub(crate) fn due_before<R>(&self, waiting: &Waiting<R>) -> Option<Slot> {
        let own = urgency(waiting)?;
        let first = (Arc::clone(&own.0), own.1, Time::ORIGIN, Place::FIRST);
        self.due.range(first..own).next().map(|(_, slot)| *slot)
    }

    /// When the oldest of those who need the same limits goes ahead of everybody: it has waited for `max_starvation`, and so long no
    /// other of its class was served that needs what it waits for.
    pub(crate) fn promotions(&self, class: &Class) -> impl Iterator<Item = (Time, Slot)> {
        class.max_starvation.into_iter().flat_map(move |most| {
            self.sets.iter().filter_map(move |(kind, set)| {
                let (oldest, slot) = self.oldest_of(kind)?;
                Some((oldest.arrived.max(self.last_served(set)) + most, slot))
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

    fn oldest_of(&self, kind: Kinds) -> Option<(Place, Slot)> {
        let first = self.places.range((kind, Place::FIRST)..=(kind, Place::LAST)).next();
        first.map(|((_, place), slot)| (*place, *slot))
    }

    /// When the oldest of the class came.
    pub(crate) fn oldest(&self) -> Option<Place> {
        let of_kinds = self.sets.iter().filter_map(|(kind, _)| self.oldest_of(kind)).map(|(place, _)| place);
        of_kinds.chain(self.aside.keys().next().copied()).min()
    }

    /// How many of the class wait, in line and at gates.
    pub(crate) fn waiting(&self) -> usize {
        self.places.len() + self.aside.len()
    }

    /// Everybody of the class, by arrival.
    pub(crate) fn by_arrival(&self) -> Vec<Slot> {
        let in_line = self.places.iter().map(|((_, place), slot)| (*place, *slot));
        let mut all: Vec<(Place, Slot)> =
            in_line.chain(self.aside.iter().map(|(place, slot)| (*place, *slot))).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, slot)| slot).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Everybody in line, the first first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.order.iter().map(|entry| entry.slot)
    }

    /// Everybody's bills, the first's first.
    pub(crate) fn bills(&self) -> impl Iterator<Item = (Slot, &Bill)> {
        self.order.iter().map(|entry| (entry.slot, &*entry.bill))
    }

    /// Who is served before this turn.
    pub(crate) fn ahead_of(&self, resource: &Resource, turn: Turn) -> Ahead {
        self.order.ahead_of(resource, turn)
    }

    /// What all of them will take; nothing where nobody waits.
    pub(crate) fn backlog(&self) -> Option<&Backlog> {
        self.order.backlog()
    }
}
