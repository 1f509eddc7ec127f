//! All waiting requests.

use super::admission_cap::AdmissionCap;
use super::class_queue::{ClassQueue, Service};
use super::fair_order::Arrival;
use super::key_queues::KeyQueues;
use super::queue_updates::QueueUpdates;
use super::waiting_request::Waiting;
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::identity::User;
use crate::ids::ClassId;
use crate::ledger::Backlog;
use crate::policy::{Bill, KeyCharge, LimitSet, Resource};
use rampmeter_protocol::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// All waiting requests: each is either in the queue of its class or in that of a key.
///
/// Invariant: the admission cap counts each request, `deadlines` has its deadline if it has one,
/// and it receives updates if it wants them.
#[derive(Debug)]
pub(crate) struct Queues {
    /// By class, the most urgent first.
    classes: Vec<ClassQueue>,
    pub(crate) keys: KeyQueues,
    pub(crate) updates: QueueUpdates,
    cap: AdmissionCap,
    /// The arrivals make the order independent of slots.
    deadlines: BTreeSet<(Time, Arrival, Slot)>,
}

impl Queues {
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        Queues {
            classes: resource.classes().iter().map(|_| ClassQueue::new(resource, now)).collect(),
            keys: KeyQueues::default(),
            updates: QueueUpdates::default(),
            cap: AdmissionCap::default(),
            deadlines: BTreeSet::new(),
        }
    }

    /// Takes all requests out of the queues, to enter again under `resource`: class by class, in the
    /// order in which they came.
    pub(crate) fn empty(&mut self, resource: &Resource, now: Time) -> Vec<Slot> {
        let waiting = self.classes.iter().flat_map(ClassQueue::in_order_of_coming).collect();
        self.classes.iter_mut().for_each(|queue| *queue = ClassQueue::new(resource, now));
        self.keys = KeyQueues::default();
        assert_eq!(self.waiting(), 0, "no request waits in an empty queue");
        waiting
    }

    /// Sets when a waiting request gets its next update; never if it wants none.
    pub(crate) fn set_next_update<R>(&mut self, slot: Slot, waiting: &mut Waiting<R>, next: Option<Time>) {
        waiting.next_update.into_iter().for_each(|due| self.updates.remove(due, waiting.arrival, slot));
        next.into_iter().for_each(|due| self.updates.add(due, waiting.arrival, slot));
        waiting.next_update = next;
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

    /// Puts a request into the queue of its class. Returns whether it may start before the other
    /// requests.
    pub(crate) fn enter<R>(
        &mut self,
        resource: &Resource,
        slot: Slot,
        bill: &Arc<Bill>,
        waiting: &mut Waiting<R>,
    ) -> bool {
        let queue = self.class_mut(waiting.class);
        queue.enter(resource, slot, bill, waiting);
        queue.leads(waiting)
    }

    /// Notes that a request which is in no queue has another bill.
    pub(crate) fn recharge<R>(&mut self, waiting: &Waiting<R>, before: &Bill, after: &Bill) {
        self.cap.leave(waiting.user, &waiting.client, before);
        self.cap.join(waiting.user, &waiting.client, after);
    }

    /// Takes a request that stops waiting out of its queue. Returns the key if that was the queue
    /// of a key.
    pub(crate) fn leave<R>(&mut self, resource: &Resource, waiting: &Waiting<R>) -> Option<Slot> {
        let queue = self.class_mut(waiting.class);
        match waiting.at_key {
            Some(key) => {
                queue.leave_key_wait(waiting);
                self.keys.open(key).leave(&waiting.key_position());
            }
            None => queue.leave(resource, waiting, None),
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
        queue.leave(resource, waiting, None);
        queue.join_key_wait(slot, waiting);
        waiting.at_key = Some(key);
        let key_queue = self.keys.open(key);
        key_queue.release(slot);
        key_queue.join(&waiting.key_position(), slot, cost);
    }

    /// Takes a request out of the queue of a key, to enter the queue of its class. If `keeps`, the
    /// key keeps the amount that the request needs, and nothing for another one.
    pub(crate) fn admit<R>(&mut self, slot: Slot, waiting: &mut Waiting<R>, key: Slot, keeps: bool) {
        waiting.at_key = None;
        self.class_mut(waiting.class).leave_key_wait(waiting);
        let key_queue = self.keys.open(key);
        key_queue.leave(&waiting.key_position());
        if keeps {
            key_queue.keep_for(slot);
        }
    }

    /// Takes a request out of the queue of its class, to start. `keys` are its charges to
    /// keys, and their buckets.
    pub(crate) fn serve<'a, R>(
        &mut self,
        resource: &Resource,
        waiting: &Waiting<R>,
        keys: impl Iterator<Item = (&'a KeyCharge, Slot)>,
        service: Service,
    ) {
        let queue = self.class_mut(waiting.class);
        queue.leave(resource, waiting, Some(service));
        let (client, served) = (&waiting.client, service.ends_starvation());
        for (charge, key) in keys {
            let refill = resource[charge.limit].rate().refill_span(resource.credit(charge.limit, charge.amount));
            self.keys.note_start(key, waiting.class, client, resource.weight(client).weighted(refill), served);
        }
    }

    /// Sets the limits for which requests of a class are held back.
    pub(crate) fn set_contended(&mut self, now: Time, class: ClassId, contended: LimitSet) {
        self.classes[class.index()].set_contended(now, contended);
    }

    /// The queues of `class` and of more urgent ones.
    pub(crate) fn through(&self, class: ClassId) -> &[ClassQueue] {
        &self.classes[..=class.index()]
    }

    /// The demand of requests in the queues of more urgent classes than `class`.
    pub(crate) fn backlog_before(&self, resource: &Resource, class: ClassId) -> Backlog {
        backlog(resource, self.before(class))
    }

    /// The demand of requests in the queues of `class` and of more urgent ones.
    pub(crate) fn backlog_through(&self, resource: &Resource, class: ClassId) -> Backlog {
        backlog(resource, self.through(class))
    }

    /// Whether a request of a less urgent class than `class` waits.
    pub(crate) fn is_any_behind(&self, class: ClassId) -> bool {
        self.classes[class.index() + 1..].iter().any(|queue| queue.waiting() > 0)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.classes.iter().map(ClassQueue::waiting).sum()
    }

    /// Whether the user, the client and the keys of a request may have one of the `free` positions.
    pub(crate) fn admits(&self, free: usize, user: Option<User>, client: &Arc<str>, bill: &Bill) -> bool {
        self.cap.has_room(free, user, client, bill)
    }

    /// How many requests of a client wait.
    pub(crate) fn waiting_of(&self, client: &Arc<str>) -> usize {
        self.cap.positions_of(client)
    }

    pub(crate) fn add<R>(&mut self, slot: Slot, waiting: &Waiting<R>, bill: &Bill) {
        self.cap.join(waiting.user, &waiting.client, bill);
        waiting.next_update.into_iter().for_each(|due| self.updates.add(due, waiting.arrival, slot));
        if let Some(deadline) = waiting.deadline {
            assert!(self.deadlines.insert((deadline, waiting.arrival, slot)), "a request waits once");
        }
    }

    /// Forgets a request and the amounts that keys keep for it. Its position in a queue stays.
    pub(crate) fn remove<R>(&mut self, slot: Slot, waiting: &Waiting<R>, bill: &Bill, keys: &[Slot]) {
        keys.iter().for_each(|key| self.keys.release(*key, slot));
        self.cap.leave(waiting.user, &waiting.client, bill);
        waiting.next_update.into_iter().for_each(|due| self.updates.remove(due, waiting.arrival, slot));
        if let Some(deadline) = waiting.deadline {
            assert!(
                self.deadlines.remove(&(deadline, waiting.arrival, slot)),
                "a request has waited with its deadline"
            );
        }
    }

    pub(crate) fn first_deadline(&self) -> Option<(Time, Slot)> {
        self.deadlines.first().map(|(deadline, _, slot)| (*deadline, *slot))
    }
}

fn backlog(resource: &Resource, queues: &[ClassQueue]) -> Backlog {
    let mut backlog = Backlog::none(resource);
    queues.iter().flat_map(|queue| queue.order().backlogs()).for_each(|more| backlog.add_all(more));
    backlog
}
