//! Asking for a permit, and waiting: how requests begin to wait, get updates, and stop waiting.
//!
//! A walk along waiting requests, to probe those of clients that may be gone or to end waits, is a
//! series of steps of the driver, not an event: it goes on as long as the driver wants, and a probe
//! takes a predicate over addresses, which the core never reads.
//!
//! Requests of a dead connection that want only one message are refused, to ask again. Grants as
//! probes would take longer: the limit pays for only so many in each round trip. A living client
//! asks again at once, with its old age. A connection is an inbox without its last token; if a
//! client has one inbox for each request, only its undelivered grants show that it is gone.

use crate::collections::Slot;
use crate::command::Command;
use crate::event::Ask;
use crate::identity::Identity;
use crate::ledger::Offer;
use crate::limits::NEAR;
use crate::permits::{Permit, Permits, Stage, State};
use crate::queue::{Arrival, ClassPosition, UPDATE_INTERVAL, Waiting};
use crate::scheduler::Scheduler;
use crate::scheduler::choice::Choice;
use crate::scheduler::dispatch::keys_of;
use rampmeter_policy::ids::ClassId;
use rampmeter_policy::refusal::{Bounded, Refusal};
use rampmeter_policy::spec::MAX_PERIOD;
use rampmeter_policy::{Bill, Call};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

/// The latest start of a waiting request without `max_wait`. No limit has a longer period.
const FARTHEST_START: Span = MAX_PERIOD;

impl<R: Clone> Scheduler<R> {
    /// Handles a new request: corrects its estimated cost by the kind of call, and adds the number of
    /// its client to the bill.
    pub(crate) fn correct_and_ask(&mut self, now: Time, ask: Ask<R>) {
        let counted_for = ask.counted_for.as_deref().or(ask.client.as_deref());
        let client = self.meter.names.number(now, counted_for.unwrap_or_default());
        let bill = self.cost_estimates.correct(&self.resource, ask.bill).of_client(client);
        self.ask(now, Ask { bill, ..ask });
    }

    /// Handles a new request, or one that has waited for the store.
    pub(crate) fn ask(&mut self, now: Time, ask: Ask<R>) {
        if self.term.is_ending {
            return self.refuse(ask.to, ask.id, Refusal::HandingOver);
        }
        if let Some(slot) = self.permits.find(&ask.id) {
            return self.answer_repeated(now, slot, ask);
        }
        if self.pending.asks.contains_key(&ask.id) {
            return self.repeat_pending(ask);
        }
        let ask = Ask { bill: self.bound(ask.bill, ask.class), ..ask };
        let refusal = self.spent_quota(now, &ask.bill).or_else(|| self.check_room(now, &ask.bill).err());
        if let Some(refusal) = refusal {
            return self.refuse(ask.to, ask.id, refusal);
        }
        match ask.mode {
            Mode::Allow => self.reserve(now, ask, Span::ZERO),
            Mode::Reserve => {
                let ahead = self.resource.max_ahead();
                let latest = ask.max_wait.unwrap_or(ahead).min(ahead);
                self.reserve(now, ask, latest);
            }
            Mode::Wait => self.wait(now, ask),
        }
    }

    pub(crate) fn check_keys(&mut self, now: Time, bill: &Bill) -> Result<(), Refusal> {
        match self.ledger.limit_without_room(now, bill) {
            Some(limit) => Err(Refusal::TooManyKeys { limit, bound: self.resource.spec().bounds.max_keys }),
            None => Ok(()),
        }
    }

    pub(crate) fn check_room(&mut self, now: Time, bill: &Bill) -> Result<(), Refusal> {
        self.check_keys(now, bill)?;
        if !self.permits.has_room(now) {
            let bound = self.resource.spec().bounds.max_permits;
            return Err(Refusal::BoundReached { what: Bounded::Remembered, bound });
        }
        Ok(())
    }

    /// Repeats the answer, as long as the margin pays for the late start. A lapsed permit stays
    /// charged until it is settled, as its call may have been made. A settled one is used up:
    /// another call under its id would be free.
    fn answer_repeated(&mut self, now: Time, slot: Slot, ask: Ask<R>) {
        if self.is_anothers(slot, &ask) {
            return self.refuse(ask.to, ask.id, Refusal::IdInUse);
        }
        let permit = self.permits.get_mut(slot);
        if permit.identity == Identity::default() {
            // A former leader has granted it, and a record has no ways.
            permit.identity = ask.identity;
            let same = |option: &&Bill| option.amounts().eq(permit.bill.amounts());
            if let Some(way) = ask.bill.options().find(same).map(|option| option.way).filter(|way| *way > 0) {
                let bill = (*permit.bill).clone().in_way(way);
                self.permits.set_bill(slot, bill);
            }
        }
        let permit = self.permits.get_mut(slot);
        let refusal = match &mut permit.state {
            State::Returned => Refusal::UnknownPermit,
            // The start is sent once the store knows of it.
            State::Granted(granted) if granted.stage == Stage::Promised => Refusal::StoreSilent,
            State::Granted(granted) if !granted.is_open() => Refusal::AlreadySettled,
            State::Granted(granted) if granted.start.at + LATENESS < now => Refusal::Lapsed,
            State::Granted(granted) => {
                let granted = *granted;
                return self.answer(now, slot, ask.to, granted, None);
            }
            State::Waiting(_) if ask.mode != Mode::Wait => Refusal::RepeatCannotWait,
            State::Waiting(waiting) => {
                waiting.to = ask.to;
                self.queues.set_next_update(slot, waiting, ask.progress.then_some(now + UPDATE_INTERVAL));
                return self.update_if_wanted(now, slot);
            }
        };
        self.refuse(ask.to, ask.id, refusal);
    }

    /// Whether the id belongs to another request that waits or has an unsettled permit.
    fn is_anothers(&self, slot: Slot, ask: &Ask<R>) -> bool {
        let permit = self.permits.get(slot);
        let in_use = permit.as_waiting().is_some() || permit.granted().is_some_and(|granted| granted.is_open());
        in_use && !permit.identity.may_be(ask.identity)
    }

    fn reserve(&mut self, now: Time, ask: Ask<R>, latest: Span) {
        let behind = |bill: &Bill| self.offer_behind_queue(ask.class, bill);
        let Choice { offer, alternative } = self.choose_or(&ask.bill, now, behind);
        let chosen = alternative.cloned();
        let bill = chosen.as_deref().unwrap_or(&ask.bill);
        if offer.at.since(now) > latest {
            let refusal = self.too_late(now, &ask, offer);
            return self.refuse(ask.to, ask.id, refusal);
        }
        if self.is_covered(bill, offer.at) {
            self.grant(now, ask.taking(chosen), offer, now + latest);
        } else if self.pending.answers.len() >= self.resource.spec().bounds.max_waiting {
            let bound = self.resource.spec().bounds.max_waiting;
            let refusal = Refusal::BoundReached { what: Bounded::Pending, bound };
            self.refuse(ask.to, ask.id, refusal);
        } else if offer.at <= now + NEAR {
            // The next checkpoint has a budget for this request.
            self.term.budget.note_shortage(&self.resource, &ask.bill, bill, offer.at.since(now));
            self.pending.push_ask(now, ask);
        } else {
            self.promise(now, ask.taking(chosen), offer, now + latest);
        }
    }

    /// Returns the refusal of a request whose start is too late for it, or too far to be reserved.
    fn too_late(&self, now: Time, ask: &Ask<R>, offer: Offer) -> Refusal {
        let (delay, bound) = (offer.at.since(now), self.resource.max_ahead());
        let would_take_it =
            offer.at < Time::NEVER && ask.mode == Mode::Reserve && ask.max_wait.is_none_or(|most| delay <= most);
        match would_take_it {
            true => Refusal::TooFarAhead { delay, bound, limited_by: offer.limited_by },
            false => self.late(&ask.bill, offer),
        }
    }

    /// Lets a request wait, or grants it now if no other waits and it can start within the horizon.
    fn wait(&mut self, now: Time, ask: Ask<R>) {
        let tier = self.resource.tier(ask.class);
        let Choice { offer, alternative } = self.choose_now(&ask.bill, tier, now);
        let delay = offer.at.since(now);
        let too_late = |max| self.misses(&ask.bill, tier, offer, now + max);
        if ask.max_wait.is_some_and(too_late) {
            let behind = self.choose_or(&ask.bill, now, |bill| self.offer_behind_queue(ask.class, bill)).offer;
            let refusal = self.late(&ask.bill, behind);
            return self.refuse(ask.to, ask.id, refusal);
        }
        let waiting = self.waiting();
        let chosen = alternative.cloned();
        let bill = chosen.as_deref().unwrap_or(&ask.bill);
        let may_go = || self.is_covered(bill, offer.at) && self.ledger.unproven(now, bill).is_none();
        if waiting == 0 && delay <= self.resource.spec().horizon && may_go() {
            let latest = now + ask.max_wait.unwrap_or(FARTHEST_START);
            return self.grant(now, ask.taking(chosen), offer, latest);
        }
        if let Some(refusal) = self.queue_full(&ask, waiting) {
            return self.refuse(ask.to, ask.id, refusal);
        }
        self.join_queue(now, ask, offer.at);
    }

    /// Returns the refusal of a request for which the queues have no room.
    pub(crate) fn queue_full(&self, ask: &Ask<R>, waiting: usize) -> Option<Refusal> {
        let bound = self.resource.spec().bounds.max_waiting;
        let free = bound.saturating_sub(waiting);
        let client = ask.client.clone().unwrap_or_default();
        let what = match free {
            0 => Bounded::Waiting,
            _ if !self.queues.admits(free, ask.identity.user(), &client, &ask.bill) => Bounded::WaitingOfParty,
            _ => return None,
        };
        Some(Refusal::BoundReached { what, bound })
    }

    /// Queues a new request. Without other requests it could start at `alone`.
    pub(crate) fn join_queue(&mut self, now: Time, ask: Ask<R>, alone: Time) {
        let at = (now - ask.age).max(self.term.earliest_arrival(now));
        let arrival = Arrival { at, serial: self.permits.next_serial() };
        let deadline = ask.max_wait.map(|max| now + max);
        let class = ask.class;
        // A call that the bill implies is not stored.
        let implied =
            |call: &Call| ask.bill.alternatives.is_none() && *call == Call::from_bill(&ask.bill, &self.resource);
        let call = ask.call.filter(|call| !implied(call));
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
        let may_start = self.enter_queue(slot) || self.may_backfill(class, alone) || self.may_take_another(slot);
        self.plan.next = self.plan.next.into_iter().chain(deadline).min();
        if may_start {
            self.dispatch(now);
        }
        if self.permits.find_at(slot).and_then(Permit::as_waiting).is_some() {
            self.update_if_wanted(now, slot);
        }
    }

    /// Enqueues a request in its class. Returns whether it may start before the other requests.
    pub(crate) fn enter_queue(&mut self, slot: Slot) -> bool {
        let permit = self.permits.get_mut(slot);
        let bill = Arc::clone(&permit.bill);
        let waiting = permit.waiting_mut();
        self.queues.class_mut(waiting.class).enter(&self.resource, slot, &bill, waiting)
    }

    pub(crate) fn send_updates(&mut self, now: Time) {
        for slot in self.queues.due_updates(now) {
            self.update_if_wanted(now, slot);
            let waiting = self.permits.get_mut(slot).waiting_mut();
            self.queues.set_next_update(slot, waiting, Some(now + UPDATE_INTERVAL));
        }
    }

    /// Sends a waiting request its position and estimate, if it wants updates.
    pub(crate) fn update_if_wanted(&mut self, now: Time, slot: Slot) {
        let permit = self.permits.get(slot);
        let (id, waiting) = (permit.id.clone(), permit.waiting());
        if waiting.next_update.is_some() {
            let (position, offer) = self.outlook(slot);
            let (to, eta, limited_by) = (waiting.to.clone(), offer.at.since(now), offer.limited_by);
            self.outbox.push_back(Command::Queued { to, id, position, eta, limited_by });
        }
    }

    /// Takes one step of a walk that probes waiting requests whose clients may be gone. Each gets
    /// an update; one without updates may get only one message, so it is refused, to ask again.
    /// Returns where to go on. Handle [`Event::Wake`](crate::event::Event::Wake) next.
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

    /// Takes one step of a walk that ends the waits of `selection`. Returns how many it has ended,
    /// and where to go on. Handle [`Event::Wake`](crate::event::Event::Wake) next.
    pub fn purge(&mut self, walk: QueueCursor, selection: &Selection) -> (usize, Option<QueueCursor>) {
        let (slots, walk) = walk.step(&self.permits, |waiting| selection.matches(waiting));
        let ended = slots.len();
        slots.into_iter().for_each(|slot| self.turn_away(slot, Refusal::Purged));
        (ended, walk)
    }

    pub(crate) fn turn_away(&mut self, slot: Slot, refusal: Refusal) {
        let (to, id) = self.drop_waiting(slot);
        self.refuse(to, id, refusal);
    }

    /// Removes a waiting request from its queue and forgets it. Returns its address and its id.
    pub(crate) fn drop_waiting(&mut self, slot: Slot) -> (R, PermitId) {
        let waiting = self.take_out(slot);
        (waiting.to, self.permits.remove(slot).id)
    }

    pub(crate) fn take_out(&mut self, slot: Slot) -> Waiting<R> {
        let waiting = self.stop_waiting(slot);
        let key = self.queues.leave(&self.resource, &waiting);
        key.into_iter().for_each(|key| self.ledger.keys.note_change(key));
        self.ledger.note_change();
        waiting
    }

    /// Forgets a request that stops waiting, not its position in a queue. Keys keep nothing for it.
    pub(crate) fn stop_waiting(&mut self, slot: Slot) -> Waiting<R> {
        let permit = self.permits.get_mut(slot);
        let (waiting, bill) = (permit.stop_waiting(), Arc::clone(&permit.bill));
        let keys = keys_of(&self.ledger, &bill);
        self.queues.remove(slot, &waiting, &bill, &keys);
        keys.into_iter().for_each(|key| self.ledger.keys.note_change(key));
        waiting
    }
}

/// Permits that one step of a [`QueueCursor`] examines, in a fraction of a millisecond.
const MAX_WALKED: usize = 1024;
/// Requests that one step probes or ends, in a fraction of a millisecond, too.
const MAX_MATCHES: usize = 64;

/// A position in a walk along all waiting requests in short steps. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCursor(usize);

impl QueueCursor {
    /// Returns the waiting requests that the next step finds, and where to go on if there are more.
    pub(super) fn step<R>(
        self,
        permits: &Permits<R>,
        matches: impl Fn(&Waiting<R>) -> bool,
    ) -> (Vec<Slot>, Option<QueueCursor>) {
        let QueueCursor(from) = self;
        let mut found = Vec::new();
        for index in from..from + MAX_WALKED {
            let Some(slot) = permits.nth_slot(index) else { return (found, None) };
            if permits.find_at(slot).and_then(Permit::as_waiting).is_some_and(&matches) {
                found.push(slot);
            }
            if found.len() == MAX_MATCHES {
                return (found, Some(QueueCursor(index + 1)));
            }
        }
        (found, Some(QueueCursor(from + MAX_WALKED)))
    }
}

/// The waiting requests of this client and of this class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The client, as the fair share has it; `None` means any.
    pub client: Option<String>,
    /// The class; `None` means any.
    pub class: Option<ClassId>,
}

impl Selection {
    pub(super) fn matches<R>(&self, waiting: &Waiting<R>) -> bool {
        let client = self.client.as_ref().is_none_or(|client| **client == *waiting.client);
        client && self.class.is_none_or(|class| class == waiting.class)
    }
}
