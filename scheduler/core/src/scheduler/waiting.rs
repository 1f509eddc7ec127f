//! Waiting requests: how they begin to wait, get updates, and stop waiting.

use super::Scheduler;
use super::ask::RETRY_AFTER_BOUND;
use super::dispatch::backfill::may_backfill;
use super::dispatch::key_waits::keys_of;
use super::queue_cursor::{QueueCursor, Selection};
use crate::collections::Slot;
use crate::command::Command;
use crate::event::Ask;
use crate::permits::{Permit, State};
use crate::policy::Call;
use crate::queue::{Arrival, ClassPosition, UPDATE_INTERVAL, Waiting};
use crate::refusal::{Bounded, Refusal};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::Time;
use std::sync::Arc;

impl<R: Clone> Scheduler<R> {
    /// The refusal of a request for which the queues have no room.
    pub(crate) fn queue_full(&self, ask: &Ask<R>, waiting: usize) -> Option<Refusal> {
        let bound = self.resource.spec().bounds.max_waiting;
        let free = bound.saturating_sub(waiting);
        let client = ask.client.clone().unwrap_or_default();
        let what = match free {
            0 => Bounded::Waiting,
            _ if !self.queues.admits(free, ask.identity.user(), &client, &ask.bill) => Bounded::WaitingOfClient,
            _ => return None,
        };
        Some(Refusal::BoundReached { what, bound, retry_after: RETRY_AFTER_BOUND })
    }

    /// Lets a new request wait. Without other requests it could start at `alone`.
    pub(crate) fn join_queue(&mut self, now: Time, ask: Ask<R>, alone: Time) {
        let at = (now - ask.age).max(self.term.earliest_arrival(now));
        let arrival = Arrival { at, serial: self.permits.next_serial() };
        let deadline = ask.max_wait.map(|max| now + max);
        let class = ask.class;
        // A call that the bill implies is not stored.
        let call = ask.call.filter(|call| **call != Call::from_bill(&ask.bill, &self.resource));
        let waiting = Box::new(Waiting {
            to: ask.to,
            class,
            arrival,
            came: now,
            user: ask.identity.user(),
            client: ask.client.unwrap_or_default(),
            position: ClassPosition::default(),
            deadline,
            next_update: ask.progress.then_some(now + UPDATE_INTERVAL),
            at_key: None,
            call,
        });
        let slot = self.permits.insert(ask.id, ask.identity, ask.bill, State::Waiting(waiting));
        let permit = self.permits.get(slot);
        self.queues.add(slot, permit.waiting(), &permit.bill);
        let may_start = self.enter_queue(slot) || may_backfill(&self.waits(now), &self.plan, class, alone);
        self.plan.bring_forward(deadline);
        // The dispatch may start or refuse it.
        if may_start {
            self.dispatch(now);
        }
        if self.permits.find_at(slot).and_then(Permit::as_waiting).is_some() {
            self.update_if_wanted(now, slot);
        }
    }

    /// Puts a request into the queue of its class. Returns whether it may start before the other
    /// requests.
    pub(crate) fn enter_queue(&mut self, slot: Slot) -> bool {
        let permit = self.permits.get_mut(slot);
        let bill = Arc::clone(&permit.bill);
        self.queues.enter(&self.resource, slot, &bill, permit.waiting_mut())
    }

    /// Updates the next batch of waiting requests.
    pub(crate) fn send_updates(&mut self, now: Time) {
        for slot in self.queues.updates.next_batch(now) {
            self.update_if_wanted(now, slot);
            let waiting = self.permits.get_mut(slot).waiting_mut();
            self.queues.set_next_update(slot, waiting, Some(now + UPDATE_INTERVAL));
        }
    }

    /// Updates a waiting request on how it stands, if it wants that.
    pub(crate) fn update_if_wanted(&mut self, now: Time, slot: Slot) {
        let permit = self.permits.get(slot);
        let (id, waiting) = (permit.id.clone(), permit.waiting());
        if waiting.next_update.is_some() {
            let (position, offer) = self.waits(now).outlook(slot);
            let (to, eta, limited_by) = (waiting.to.clone(), offer.at.since(now), offer.limited_by);
            self.outbox.push_back(Command::Queued { to, id, position, eta, limited_by });
        }
    }

    /// One step of a walk that probes waiting requests whose clients may be gone, by sending each
    /// an update. A request without updates may get only one message, so it is refused, to ask
    /// again. Handle [`Event::Wake`](crate::event::Event::Wake) next.
    pub fn probe(&mut self, now: Time, walk: QueueCursor, may_be_gone: impl Fn(&R) -> bool) -> Option<QueueCursor> {
        let (slots, walk) = walk.step(&self.permits, |waiting| may_be_gone(&waiting.to));
        for slot in slots {
            match self.permits.get(slot).waiting().next_update {
                Some(_) => self.update_if_wanted(now, slot),
                None => self.turn_away(slot, Refusal::MayBeGone),
            }
        }
        walk
    }

    /// One step of a walk that ends the waits of `selection`. Returns how many waits it has ended,
    /// and where to go on. Handle [`Event::Wake`](crate::event::Event::Wake) next.
    pub fn purge(&mut self, walk: QueueCursor, selection: &Selection) -> (usize, Option<QueueCursor>) {
        let (slots, walk) = walk.step(&self.permits, |waiting| selection.matches(waiting));
        let ended = slots.len();
        slots.into_iter().for_each(|slot| self.turn_away(slot, Refusal::Purged));
        (ended, walk)
    }

    /// Takes a waiting request out of its queue and refuses it.
    pub(crate) fn turn_away(&mut self, slot: Slot, refusal: Refusal) {
        let (to, id) = self.drop_waiting(slot);
        self.refuse(to, Some(id), refusal);
    }

    /// Takes a waiting request out of its queue and forgets it. Returns the address of its answer,
    /// and its id.
    pub(crate) fn drop_waiting(&mut self, slot: Slot) -> (R, PermitId) {
        let waiting = self.take_out(slot);
        (waiting.to, self.permits.remove(slot).id)
    }

    /// Takes a request that stops waiting out of its queue.
    pub(crate) fn take_out(&mut self, slot: Slot) -> Waiting<R> {
        let waiting = self.stop_waiting(slot);
        let key = self.queues.leave(&self.resource, &waiting);
        key.into_iter().for_each(|key| self.ledger.keys.note_change(key));
        self.ledger.note_change();
        waiting
    }

    /// Forgets a request that stops waiting, except for its position in a queue. Keys stop keeping
    /// amounts for it.
    pub(crate) fn stop_waiting(&mut self, slot: Slot) -> Waiting<R> {
        let permit = self.permits.get_mut(slot);
        let (waiting, bill) = (permit.stop_waiting(), Arc::clone(&permit.bill));
        let keys = keys_of(&self.ledger, &bill);
        self.queues.remove(slot, &waiting, &bill, &keys);
        keys.into_iter().for_each(|key| self.ledger.keys.note_change(key));
        waiting
    }
}
