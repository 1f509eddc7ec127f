//! All waiting requests, and how many each user, client and key may have without filling the queue.

use crate::collections::Slot;
use crate::identity::User;
use crate::ledger::Backlog;
use crate::queue::class_queue::{ClassQueue, Service, Waiting};
use crate::queue::fair_order::Arrival;
use crate::queue::key_queue::KeyQueues;
use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::ids::{ClassId, LimitId};
use rampmeter_policy::{Bill, KeyCharge, LimitSet, Resource};
use rampmeter_protocol::shared_places::SharedPlaces;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How long after an update the next one is due; the protocol promises 5 s.
pub(crate) const UPDATE_INTERVAL: Span = Span::from_secs(3);
/// Requests that one event updates, which takes no longer than a few hundred microseconds.
const UPDATED_BY_EVENT: usize = 64;

/// Requests by a time. Their arrivals make the order independent of slots.
type Due = BTreeSet<(Time, Arrival, Slot)>;

/// All waiting requests: each is either in the queue of its class or in that of a key.
/// Invariant: `held` counts each request, `deadlines` has its deadline if it has one, and `updates`
/// when its next update is due if it wants updates.
#[derive(Debug)]
pub(crate) struct Queues {
    classes: Vec<ClassQueue>,
    pub(crate) keys: KeyQueues,
    held: SharedPlaces<Party>,
    updates: Due,
    deadlines: Due,
}

impl Queues {
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        Queues {
            classes: resource.classes().iter().map(|_| ClassQueue::new(resource, now)).collect(),
            keys: KeyQueues::default(),
            held: SharedPlaces::default(),
            updates: Due::new(),
            deadlines: Due::new(),
        }
    }

    /// Empties the queues. Returns all requests class by class, in the order in which they came.
    pub(crate) fn empty(&mut self, resource: &Resource, now: Time) -> Vec<Slot> {
        let waiting = self.classes.iter().flat_map(ClassQueue::in_order_of_coming).collect();
        self.classes.iter_mut().for_each(|queue| queue.empty(resource, now));
        self.keys = KeyQueues::default();
        assert_eq!(self.waiting(), 0, "no request waits in an empty queue");
        waiting
    }

    pub(crate) fn set_next_update<R>(&mut self, slot: Slot, waiting: &mut Waiting<R>, next: Option<Time>) {
        remove_due(&mut self.updates, waiting.next_update, waiting.arrival, slot);
        insert_due(&mut self.updates, next, waiting.arrival, slot);
        waiting.next_update = next;
    }

    /// Returns when [`due_updates`](Queues::due_updates) will have something to return.
    pub(crate) fn next_update(&self) -> Option<Time> {
        self.updates.first().map(|(due, ..)| *due)
    }

    /// Returns some requests whose updates are due. The caller sets their next updates.
    pub(crate) fn due_updates(&self, now: Time) -> Vec<Slot> {
        let due = self.updates.iter().take_while(|(due, ..)| *due <= now);
        due.take(UPDATED_BY_EVENT).map(|(.., slot)| *slot).collect()
    }

    pub(crate) fn classes(&self) -> &[ClassQueue] {
        &self.classes
    }

    pub(crate) fn class(&self, class: ClassId) -> &ClassQueue {
        &self.classes[class.index()]
    }

    pub(crate) fn class_mut(&mut self, class: ClassId) -> &mut ClassQueue {
        &mut self.classes[class.index()]
    }

    pub(crate) fn before(&self, class: ClassId) -> &[ClassQueue] {
        &self.classes[..class.index()]
    }

    pub(crate) fn recharge<R>(&mut self, waiting: &Waiting<R>, before: &Bill, after: &Bill) {
        parties(waiting.user, &waiting.client, before).for_each(|party| self.held.give_back(&party));
        parties(waiting.user, &waiting.client, after).for_each(|party| self.held.take(party));
    }

    /// Removes a request that stops waiting from its queue. Returns the key if it is a key's queue.
    pub(crate) fn leave<R>(&mut self, resource: &Resource, waiting: &Waiting<R>) -> Option<Slot> {
        let queue = self.class_mut(waiting.class);
        match waiting.at_key {
            Some(key) => {
                queue.leave_key_wait(waiting);
                self.keys.open(key).leave(waiting);
            }
            None => queue.leave(resource, waiting, None, LimitSet::NONE),
        }
        waiting.at_key
    }

    /// Moves a request from the queue of its class to that of a key, of which it takes `cost`.
    pub(crate) fn wait_for_key<R>(
        &mut self,
        resource: &Resource,
        slot: Slot,
        waiting: &mut Waiting<R>,
        (key, cost): (Slot, Credit),
    ) {
        let queue = self.class_mut(waiting.class);
        queue.leave(resource, waiting, None, LimitSet::NONE);
        waiting.at_key = Some(key);
        queue.join_key_wait(slot, waiting);
        let key_queue = self.keys.open(key);
        key_queue.release(slot);
        key_queue.join(waiting, slot, cost);
    }

    /// Removes a request from a key's queue, to enter the queue of its class. If `keeps`, the key
    /// keeps the amount that the request needs, and nothing for another one.
    pub(crate) fn move_to_class_queue<R>(&mut self, slot: Slot, waiting: &mut Waiting<R>, key: Slot, keeps: bool) {
        self.class_mut(waiting.class).leave_key_wait(waiting);
        waiting.at_key = None;
        let key_queue = self.keys.open(key);
        key_queue.leave(waiting);
        if keeps {
            key_queue.kept_for = Some(slot);
        }
    }

    /// Removes a starting request from the queue of its class. `keys` are its charges and buckets,
    /// and `charged` are the limits that its start takes from.
    pub(crate) fn serve<'a, R>(
        &mut self,
        resource: &Resource,
        waiting: &Waiting<R>,
        keys: impl Iterator<Item = (&'a KeyCharge, Slot)>,
        service: Service,
        charged: LimitSet,
    ) {
        let queue = self.class_mut(waiting.class);
        queue.leave(resource, waiting, Some(service), charged);
        let (client, served) = (&waiting.client, service.ends_starvation());
        for (charge, key) in keys {
            let refill = resource[charge.limit].rate().refill_span(resource.credit(charge.limit, charge.amount));
            if let Some(queue) = self.keys.get_mut(key) {
                queue.note_start(waiting.class, client, resource.weight(client).weighted(refill), served);
            }
        }
    }

    pub(crate) fn through(&self, class: ClassId) -> &[ClassQueue] {
        &self.classes[..=class.index()]
    }

    pub(crate) fn backlog_through(&self, resource: &Resource, class: ClassId) -> Backlog {
        backlog(resource, self.through(class))
    }

    pub(crate) fn is_any_behind(&self, class: ClassId) -> bool {
        self.classes[class.index() + 1..].iter().any(|queue| queue.waiting() > 0)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.classes.iter().map(ClassQueue::waiting).sum()
    }

    /// Whether the user, the client and the keys of a request may have one of the `free` positions.
    pub(crate) fn admits(&self, free: usize, user: Option<User>, client: &Arc<str>, bill: &Bill) -> bool {
        parties(user, client, bill).all(|party| self.held.may_take(&party, party.times_free(), free))
    }

    pub(crate) fn waiting_of(&self, client: &Arc<str>) -> usize {
        self.held.held_by(&Party::Client(Arc::clone(client)))
    }

    pub(crate) fn add<R>(&mut self, slot: Slot, waiting: &Waiting<R>, bill: &Bill) {
        parties(waiting.user, &waiting.client, bill).for_each(|party| self.held.take(party));
        insert_due(&mut self.updates, waiting.next_update, waiting.arrival, slot);
        insert_due(&mut self.deadlines, waiting.deadline, waiting.arrival, slot);
    }

    /// Forgets a request and the amounts that keys keep for it. Its position in a queue stays.
    pub(crate) fn remove<R>(&mut self, slot: Slot, waiting: &Waiting<R>, bill: &Bill, keys: &[Slot]) {
        for key in keys {
            self.keys.get_mut(*key).into_iter().for_each(|queue| queue.release(slot));
        }
        parties(waiting.user, &waiting.client, bill).for_each(|party| self.held.give_back(&party));
        remove_due(&mut self.updates, waiting.next_update, waiting.arrival, slot);
        remove_due(&mut self.deadlines, waiting.deadline, waiting.arrival, slot);
    }

    pub(crate) fn first_deadline(&self) -> Option<(Time, Slot)> {
        self.deadlines.first().map(|(deadline, _, slot)| (*deadline, *slot))
    }
}

fn insert_due(due: &mut Due, at: Option<Time>, arrival: Arrival, slot: Slot) {
    at.into_iter().for_each(|at| assert!(due.insert((at, arrival, slot)), "a request is listed once"));
}

fn remove_due(due: &mut Due, at: Option<Time>, arrival: Arrival, slot: Slot) {
    at.into_iter().for_each(|at| assert!(due.remove(&(at, arrival, slot)), "a request is listed until it leaves"));
}

pub(crate) fn backlog(resource: &Resource, queues: &[ClassQueue]) -> Backlog {
    let mut backlog = Backlog::none(resource);
    queues.iter().flat_map(|queue| queue.order.backlogs()).for_each(|more| backlog.add_all(more));
    backlog
}

/// A user may hold this many times the free positions, a client or key only as many as are free: a
/// user's other clients find room beside one that holds all it may.
const TIMES_FREE_OF_USER: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Party {
    User(User),
    Client(Arc<str>),
    Key(LimitId, Arc<str>),
}

impl Party {
    fn times_free(&self) -> usize {
        match self {
            Party::User(_) => TIMES_FREE_OF_USER,
            Party::Client(_) | Party::Key(..) => 1,
        }
    }
}

/// Returns the user, the client and the keys of a request. Unknown users and clients have no cap.
fn parties(user: Option<User>, client: &Arc<str>, bill: &Bill) -> impl Iterator<Item = Party> {
    let client = (!client.is_empty()).then(|| Party::Client(Arc::clone(client)));
    let keys = bill.keyed().map(|charge| Party::Key(charge.limit, Arc::clone(&charge.key)));
    user.map(Party::User).into_iter().chain(client).chain(keys)
}
