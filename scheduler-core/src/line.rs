//! Requests that wait for their turn.

use crate::aside::Aside;
use crate::between::Turns;
use crate::bill::Bill;
use crate::clients::{Clients, Newcomer, Slice};
use crate::ledger::Backlog;
use crate::order::{Ahead, Entry, Order, Turn};
use crate::pace::Pace;
use crate::resource::{Class, ClassId, LimitId, Resource};
use crate::rules::Call;
use crate::shape::{Shape, ShapeSet, Shapes};
use crate::slab::Slot;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};
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
    /// What it has to do with the gate of a key.
    pub(crate) aside: Option<Aside>,
    /// What it is for, where somebody has said so.
    pub(crate) call: Option<Box<Call>>,
    /// The gates to which it was sent.
    pub(crate) turns: Turns,
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
    shape: Shape,
    shapes: ShapeSet,
}

/// A request with a deadline. Of one client's, those that need the same limits take their turns by deadline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    client: Arc<str>,
    shapes: ShapeSet,
    deadline: Time,
    place: Place,
    slot: Slot,
}

/// The line of one class: clients share it fairly, each is served first come, first served.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    order: Order,
    places: BTreeMap<Place, Slot>,
    /// The turns of each client's, by arrival.
    turns: BTreeMap<(Arc<str>, Place), Turn>,
    due: BTreeSet<Due>,
    /// The turns of those with a deadline, by client and the limits that they need.
    due_turns: BTreeSet<(Arc<str>, ShapeSet, Turn, Slot)>,
    clients: Clients,
    shapes: Shapes,
    /// By limit.
    paces: Vec<Pace>,
    /// When a start was last given to this class while it had a line.
    served: Time,
}

impl Line {
    pub(crate) fn new(now: Time) -> Self {
        Line {
            order: Order::new(),
            places: BTreeMap::new(),
            turns: BTreeMap::new(),
            due: BTreeSet::new(),
            due_turns: BTreeSet::new(),
            clients: Clients::default(),
            shapes: Shapes::default(),
            paces: Vec::new(),
            served: now,
        }
    }

    /// Where a newcomer of `client` will stand, once it [joins](Line::join).
    pub(crate) fn stand(&mut self, resource: &Resource, client: &Arc<str>, place: Place, bill: &Bill) -> Standing {
        let shape = Shape::of(bill);
        let shapes = self.shapes.alone(shape);
        // Nobody begins behind those who wait for none but the same limits.
        let first = self.order.first_among(self.shapes.within(shape)).map(|entry| entry.turn.tag);
        let (share, weight) = (resource.dominant_share(bill), resource.weight(client));
        let slice = self.clients.join(client, Newcomer { shape, first, share, weight });
        let own = Turn { tag: slice.begin, returning: slice.returning, place };
        // One that has waited elsewhere goes right ahead of those of its client's that came later.
        let later = (Arc::clone(client), place)..(Arc::clone(client), Place::LAST);
        let turn = self.turns.range(later).next().map_or(own, |(_, later)| Turn { place, ..*later });
        Standing { turn, slice, shape, shapes }
    }

    pub(crate) fn join<R>(&mut self, resource: &Resource, slot: Slot, bill: &Arc<Bill>, waiting: &Waiting<R>) {
        let Standing { turn, shapes, .. } = waiting.standing;
        self.order.insert(resource, Entry { turn, slot, bill: Arc::clone(bill), shapes });
        self.places.insert(waiting.place, slot);
        self.turns.insert((Arc::clone(&waiting.client), waiting.place), turn);
        self.due.extend(Due::of(slot, waiting));
        self.due_turns.extend(due_turn(slot, waiting));
    }

    /// Takes out one that was not served.
    pub(crate) fn leave<R>(&mut self, resource: &Resource, slot: Slot, waiting: &Waiting<R>) {
        self.take_out(resource, slot, waiting);
        self.clients.give_up(&waiting.client, waiting.standing.slice);
        self.end_if_empty();
    }

    /// Takes out one that was served in its turn.
    pub(crate) fn serve<R>(&mut self, resource: &Resource, now: Time, slot: Slot, waiting: &Waiting<R>) {
        self.served = now;
        self.take_out(resource, slot, waiting);
        let Standing { turn, slice, shape, .. } = waiting.standing;
        self.clients.serve(&waiting.client, shape, slice, turn.tag);
        shape.and(self.clients.held()).limits().for_each(|limit| self.note_pace(now, limit));
        self.end_if_empty();
    }

    /// Takes out one that was served before its turn. Whoever it has passed must not find the clocks ahead of its own.
    pub(crate) fn promote<R>(&mut self, resource: &Resource, now: Time, slot: Slot, waiting: &Waiting<R>) {
        self.served = now;
        self.pass(resource, slot, waiting);
    }

    /// The same for one that has passed others who go on waiting for their turns: that their class was served is of no use to them.
    pub(crate) fn pass<R>(&mut self, resource: &Resource, slot: Slot, waiting: &Waiting<R>) {
        self.take_out(resource, slot, waiting);
        self.clients.promote(&waiting.client, waiting.standing.slice);
        self.end_if_empty();
    }

    /// The limits that somebody is held for.
    pub(crate) fn held(&self) -> Shape {
        self.clients.held()
    }

    /// Takes note of the limits that somebody is held for.
    pub(crate) fn hold(&mut self, now: Time, held: Shape) {
        let new = held.without(self.clients.held());
        self.clients.hold(held);
        for limit in new.limits() {
            let clock = self.clients.clock(limit);
            self.pace(limit, now).restart(now, clock);
        }
    }

    fn note_pace(&mut self, now: Time, limit: LimitId) {
        let clock = self.clients.clock(limit);
        self.pace(limit, now).note(now, clock);
    }

    fn pace(&mut self, limit: LimitId, now: Time) -> &mut Pace {
        let index = limit.index();
        if index >= self.paces.len() {
            self.paces.resize(index + 1, Pace::new(now));
        }
        &mut self.paces[index]
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
            let first = self.order.first_among(self.shapes.needing(limit))?.turn.tag;
            let distance = standing.turn.tag.since(first);
            if distance == Span::ZERO { None } else { self.paces.get(limit.index())?.time_for(distance) }
        };
        standing.shape.and(self.clients.held()).limits().filter_map(until).max()
    }

    fn take_out<R>(&mut self, resource: &Resource, slot: Slot, waiting: &Waiting<R>) {
        let known = self.places.remove(&waiting.place);
        assert!(known.is_some(), "who leaves a line was in it");
        self.order.remove(resource, waiting.standing.turn);
        self.turns.remove(&(Arc::clone(&waiting.client), waiting.place));
        if let Some(due) = Due::of(slot, waiting) {
            self.due.remove(&due);
        }
        self.forget_due_turn(slot, waiting);
    }

    fn forget_due_turn<R>(&mut self, slot: Slot, waiting: &Waiting<R>) {
        if let Some(turn) = due_turn(slot, waiting) {
            self.due_turns.remove(&turn);
        }
    }

    /// The first who needs nothing of what is blocked.
    pub(crate) fn first(&self, blocked: Shape) -> Option<Slot> {
        self.order.first_among(self.shapes.avoiding(blocked)).map(|entry| entry.slot)
    }

    /// Whether nobody who needs the same limits is ahead.
    pub(crate) fn leads<R>(&self, waiting: &Waiting<R>) -> bool {
        let first = self.order.first_among(waiting.standing.shapes);
        first.is_some_and(|entry| entry.turn == waiting.standing.turn)
    }

    /// Who takes the turn of `waiting`, if another of the same client has an earlier deadline.
    pub(crate) fn due_before<R>(&self, slot: Slot, waiting: &Waiting<R>) -> Option<Slot> {
        let own = Due::of(slot, waiting)?;
        let first = Due { deadline: Time::ORIGIN, place: Place::FIRST, slot: Slot::FIRST, ..own.clone() };
        self.due.range(first..own).next().map(|due| due.slot)
    }

    /// Who has the last turn of those of the same client that have a deadline and need the same limits, if it is not this one.
    pub(crate) fn last_due<R>(&self, slot: Slot, waiting: &Waiting<R>) -> Option<Slot> {
        let own = due_turn(slot, waiting)?;
        let end = (Arc::clone(&own.0), own.1, Turn::LAST, Slot::FIRST);
        self.due_turns.range(&own..&end).next_back().map(|(.., slot)| *slot).filter(|last| *last != slot)
    }

    /// Gives the standing of another of its client's, which needs the same limits, to the one in `slot`.
    pub(crate) fn give_turn<R>(&mut self, slot: Slot, waiting: &mut Waiting<R>, standing: Standing) {
        self.forget_due_turn(slot, waiting);
        waiting.standing = standing;
        self.order.hand_turn(standing.turn, slot);
        self.turns.insert((Arc::clone(&waiting.client), waiting.place), standing.turn);
        self.due_turns.extend(due_turn(slot, waiting));
    }

    /// The oldest.
    pub(crate) fn oldest(&self) -> Option<(Place, Slot)> {
        self.places.first_key_value().map(|(place, slot)| (*place, *slot))
    }

    /// When the oldest request goes ahead of everybody: it has waited for `max_starvation`, and so
    /// long nobody of its class was served.
    pub(crate) fn promotion(&self, class: &Class) -> Option<Time> {
        let (oldest, _) = self.oldest()?;
        Some(oldest.arrived.max(self.served) + class.max_starvation?)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Everybody in line, by arrival.
    pub(crate) fn by_arrival(&self) -> impl Iterator<Item = Slot> {
        self.places.values().copied()
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

    pub(crate) fn has(&self, place: Place) -> bool {
        self.places.contains_key(&place)
    }

    /// What all of them will take; nothing where nobody waits.
    pub(crate) fn backlog(&self) -> Option<&Backlog> {
        self.order.backlog()
    }
}

fn due_turn<R>(slot: Slot, waiting: &Waiting<R>) -> Option<(Arc<str>, ShapeSet, Turn, Slot)> {
    waiting.deadline?;
    Some((Arc::clone(&waiting.client), waiting.standing.shapes, waiting.standing.turn, slot))
}

impl Due {
    fn of<R>(slot: Slot, waiting: &Waiting<R>) -> Option<Self> {
        let (client, shapes) = (Arc::clone(&waiting.client), waiting.standing.shapes);
        Some(Due { client, shapes, deadline: waiting.deadline?, place: waiting.place, slot })
    }
}
