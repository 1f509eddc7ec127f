//! Asking for a permit.

use super::Scheduler;
use super::permits::{Granted, Permit, Stage, State};
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::event::Ask;
use crate::identity::Identity;
use crate::ids::ClassId;
use crate::ledger::{Backlog, NEAR, Offer};
use crate::limits::StartKey;
use crate::policy::{Bill, Call, KeyCharge, MAX_PERIOD};
use crate::queue::{Arrival, ClassPosition, ClassQueue, QueueDemand, Waiting};
use crate::refusal::Refusal;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

/// The farthest start of a waiting request that sets no bound: beyond the longest period, nothing
/// can be foreseen.
const MAX_AHEAD: Span = MAX_PERIOD;
/// When to ask again after a bound was reached: long enough for some requests to be served.
const RETRY_AFTER_BOUND: Span = Span::from_secs(1);

impl<R: Clone> Scheduler<R> {
    pub(crate) fn ask(&mut self, now: Time, ask: Ask<R>) {
        if self.handing_over {
            return self.refuse(ask.to, Some(ask.id), Refusal::Unavailable);
        }
        if let Some(slot) = self.permits.find(&ask.id) {
            return self.ask_again(now, slot, ask);
        }
        if self.pending_answers.has(&ask.id) {
            return self.repeat_pending(ask);
        }
        let refusal = self.spent_quota(now, &ask.bill).or_else(|| self.check_room(now, &ask.bill).err());
        if let Some(refusal) = refusal {
            return self.refuse(ask.to, Some(ask.id), refusal);
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

    /// Whether there is room for the buckets of a bill's keys.
    pub(crate) fn check_keys(&mut self, now: Time, bill: &Bill) -> Result<(), Refusal> {
        let keys = &mut self.ledger.keys;
        match bill.keyed().find(|charge| !keys.has_room_for(now, charge)) {
            Some(KeyCharge { limit, .. }) => {
                Err(Refusal::TooManyKeys { limit: *limit, bound: keys.bound(), retry_after: RETRY_AFTER_BOUND })
            }
            None => Ok(()),
        }
    }

    /// Whether there is room for one more permit, and for the buckets of its keys.
    pub(crate) fn check_room(&mut self, now: Time, bill: &Bill) -> Result<(), Refusal> {
        self.check_keys(now, bill)?;
        // A small permit takes no place among the remembered permits.
        if !self.resource.is_small(bill) && !self.permits.has_room(now) {
            let bound = self.resource.spec().bounds.max_permits;
            return Err(Refusal::QueueFull { what: "remembered permits", bound, retry_after: RETRY_AFTER_BOUND });
        }
        Ok(())
    }

    /// Repeats the answer, as long as the margin pays for a start that is so late. A lapsed permit
    /// stays charged until it is settled, as its call may have been made. A settled one is used up:
    /// another call under its id would be free.
    fn ask_again(&mut self, now: Time, slot: Slot, ask: Ask<R>) {
        if self.is_anothers(slot, &ask) {
            return self.refuse(ask.to, Some(ask.id), Refusal::IdInUse);
        }
        match &mut self.permits.get_mut(slot).state {
            State::Returned => self.refuse(ask.to, Some(ask.id), Refusal::UnknownPermit),
            // It is told once the store knows of it.
            State::Granted(granted) if granted.stage == Stage::Promised => {
                self.refuse(ask.to, Some(ask.id), Refusal::Unavailable);
            }
            State::Granted(granted) if !granted.is_open() => self.refuse(ask.to, Some(ask.id), Refusal::AlreadySettled),
            State::Granted(granted) if granted.key.at + LATENESS < now => {
                self.refuse(ask.to, Some(ask.id), Refusal::Lapsed);
            }
            State::Granted(granted) => {
                let granted = *granted;
                self.answer(now, slot, ask.to, granted, Span::ZERO, true);
            }
            State::Waiting(_) if ask.mode != Mode::Wait => self.refuse(ask.to, Some(ask.id), Refusal::StillWaiting),
            State::Waiting(waiting) => {
                waiting.to = ask.to;
                waiting.progress = ask.progress;
                self.queues.updates.set_subscribed(waiting.arrival, slot, ask.progress);
                self.tell(now, slot);
            }
        }
    }

    /// Whether the id is in use for another request: another call waits or is under way. The first
    /// repetition of a former leader's request tells what it is.
    fn is_anothers(&mut self, slot: Slot, ask: &Ask<R>) -> bool {
        let permit = self.permits.get_mut(slot);
        let in_use = permit.as_waiting().is_some() || permit.granted().is_some_and(|granted| granted.is_open());
        let is_anothers = in_use && !permit.identity.may_be(ask.identity);
        if permit.identity == Identity::default() {
            permit.identity = ask.identity;
        }
        is_anothers
    }

    /// Answers at once, with a binding start within `latest` from now.
    fn reserve(&mut self, now: Time, ask: Ask<R>, latest: Span) {
        // During a change, what the waiting requests take is not known.
        let is_changing = self.is_changing();
        let offer = self.offer_behind_queue(now, ask.class, &ask.bill);
        if !is_changing && offer.at.since(now) > latest {
            let refusal = self.too_late(now, &ask, offer);
            return self.refuse(ask.to, Some(ask.id), refusal);
        }
        if !is_changing && self.is_covered(&ask.bill, offer.at) {
            self.grant(now, ask, offer, now + latest);
        } else if self.pending_answers.len() >= self.resource.spec().bounds.max_waiting {
            self.refuse(ask.to, Some(ask.id), Refusal::Unavailable);
        } else if is_changing || offer.at <= now + NEAR {
            // The next checkpoint has a budget for it.
            self.answer_later(now, ask, offer.at);
        } else {
            self.promise(now, ask, offer, now + latest);
        }
    }

    /// The refusal of a request whose start would be too late: for itself, or to be reserved.
    fn too_late(&self, now: Time, ask: &Ask<R>, offer: Offer) -> Refusal {
        let (delay, bound) = (offer.at.since(now), self.resource.max_ahead());
        let would_take_it =
            offer.at < Time::NEVER && ask.mode == Mode::Reserve && ask.max_wait.is_none_or(|most| delay <= most);
        match would_take_it {
            true => Refusal::TooFarAhead { delay, bound, limited_by: offer.limited_by },
            false => offer.not_in_time(now),
        }
    }

    /// Waits for its turn. Without other waiting requests and with a start within the horizon, that
    /// is now.
    fn wait(&mut self, now: Time, ask: Ask<R>) {
        let offer = self.ledger.earliest(now, &ask.bill, self.tier(ask.class));
        let delay = offer.at.since(now);
        let too_late =
            |max| delay > max && self.ledger.earliest_once_settled(now, &ask.bill, self.tier(ask.class)) > now + max;
        if ask.max_wait.is_some_and(too_late) {
            let behind = self.offer_behind_queue(now, ask.class, &ask.bill);
            return self.refuse(ask.to, Some(ask.id), behind.not_in_time(now));
        }
        let waiting = self.waiting();
        let may_go = || self.is_covered(&ask.bill, offer.at) && self.ledger.unproven(now, &ask.bill).is_none();
        if waiting == 0 && delay <= self.resource.spec().horizon && may_go() {
            let latest = now + ask.max_wait.unwrap_or(MAX_AHEAD);
            return self.grant(now, ask, offer, latest);
        }
        if let Some(refusal) = self.queue_full(&ask, waiting) {
            return self.refuse(ask.to, Some(ask.id), refusal);
        }
        self.join_queue(now, ask, offer.at);
    }

    /// The refusal of a request for which the queues have no place.
    fn queue_full(&self, ask: &Ask<R>, waiting: usize) -> Option<Refusal> {
        let bound = self.resource.spec().bounds.max_waiting;
        let free = bound.saturating_sub(waiting);
        let client = ask.client.clone().unwrap_or_default();
        let what = match free {
            0 => "waiting requests",
            _ if !self.queues.admits(free, &client, &ask.bill) => "waiting requests, most of them this client's",
            _ => return None,
        };
        Some(Refusal::QueueFull { what, bound, retry_after: RETRY_AFTER_BOUND })
    }

    /// The earliest start behind all waiting requests of the same and of more urgent classes.
    fn offer_behind_queue(&self, now: Time, class: ClassId, bill: &Bill) -> Offer {
        let tier = self.tier(class);
        let mut behind = Offer { at: now, limited_by: None };
        let queues = self.queues.through(class);
        if queues.iter().any(|queue| queue.waiting() > 0) {
            let backlog = self.backlog_of(queues);
            behind = self.ledger.paid_after(now, &backlog, |charge| self.key_demand(charge, class), bill, tier);
        }
        let offer = self.ledger.earliest(behind.at, bill, tier);
        Offer { limited_by: offer.limited_by.or(behind.limited_by), ..offer }
    }

    /// What the requests of some class queues will take.
    pub(crate) fn backlog_of(&self, queues: &[ClassQueue]) -> Backlog {
        let mut backlog = Backlog::none(&self.resource);
        queues.iter().flat_map(|queue| queue.order().backlogs()).for_each(|more| backlog.add_all(more));
        backlog
    }

    /// The start of `offer`, behind all promised starts of the same time.
    pub(crate) fn next_start(&mut self, offer: Offer, class: ClassId, stage: Stage) -> Granted {
        let key = StartKey { at: offer.at, serial: self.next_serial() };
        Granted::new(key, offer.limited_by, class, stage)
    }

    /// Grants a new request a start; it allows none later than `latest`.
    fn grant(&mut self, now: Time, ask: Ask<R>, offer: Offer, latest: Time) {
        let to = ask.to.clone();
        let (slot, granted) = self.commit_new(now, ask, offer, latest, Stage::Told);
        self.answer(now, slot, to, granted, Span::ZERO, false);
    }

    /// Commits a new permit to a start; its request allows none later than `latest`.
    pub(crate) fn commit_new(
        &mut self,
        now: Time,
        ask: Ask<R>,
        offer: Offer,
        latest: Time,
        stage: Stage,
    ) -> (Slot, Granted) {
        let granted = self.next_start(offer, ask.class, stage);
        let slot = self.permits.insert(ask.id, ask.asker, ask.identity, ask.bill, State::Granted(granted));
        self.commit(now, slot, granted, self.tier(ask.class), latest);
        (slot, granted)
    }

    /// Lets a new request wait. Without other requests it could start at `alone`.
    fn join_queue(&mut self, now: Time, ask: Ask<R>, alone: Time) {
        let arrival = Arrival { at: now - ask.age, serial: self.next_serial() };
        let deadline = ask.max_wait.map(|max| now + max);
        let class = ask.class;
        // A call that the bill tells takes no room of its own.
        let call = ask.call.filter(|call| **call != Call::from_bill(&ask.bill, &self.resource));
        let waiting = Box::new(Waiting {
            to: ask.to,
            class,
            arrival,
            client: ask.client.unwrap_or_default(),
            position: ClassPosition::default(),
            deadline,
            progress: ask.progress,
            told: None,
            at_key: None,
            call,
            edition: self.queues.edition(),
        });
        let slot = self.permits.insert(ask.id, ask.asker, ask.identity, ask.bill, State::Waiting(waiting));
        let permit = self.permits.get(slot);
        self.queues.add(slot, permit.waiting(), &permit.bill);
        let may_start = if self.is_changing() {
            self.queues.class_mut(class).stand_behind(slot, self.permits.get_mut(slot).waiting_mut());
            false
        } else {
            self.enter_queue(slot) || self.may_backfill(class, alone)
        };
        self.next_dispatch = self.next_dispatch.into_iter().chain(deadline).min();
        // The dispatch may start or refuse it.
        if may_start {
            self.dispatch(now);
        }
        if self.permits.find_at(slot).and_then(Permit::as_waiting).is_some() {
            self.tell(now, slot);
            self.queues.updates.note(self.queues.is_any_behind(class));
        }
    }

    /// Puts a request into the queue of its class. Whether it may start before the other requests.
    pub(crate) fn enter_queue(&mut self, slot: Slot) -> bool {
        let permit = self.permits.get_mut(slot);
        let bill = Arc::clone(&permit.bill);
        let waiting = permit.waiting_mut();
        let queue = self.queues.class_mut(waiting.class);
        queue.enter(&self.resource, slot, &bill, waiting);
        queue.leads(waiting) || queue.due_before(waiting).is_none() && waiting.deadline.is_some()
    }

    /// Takes a waiting request out of its queue and refuses it.
    pub(crate) fn turn_away(&mut self, slot: Slot, refusal: Refusal) {
        let (to, id) = self.drop_waiting(slot);
        self.refuse(to, Some(id), refusal);
    }

    /// Takes a waiting request out of its queue and forgets it. Where its answer would go, and its
    /// id.
    pub(crate) fn drop_waiting(&mut self, slot: Slot) -> (R, PermitId) {
        let waiting = self.take_out(slot);
        (waiting.to, self.permits.remove(slot).id)
    }

    /// How many requests are ahead of a waiting one, and when it will probably start. During a
    /// change of limits neither is known of all requests.
    pub(crate) fn outlook(&self, now: Time, slot: Slot) -> (u64, Offer) {
        let permit = self.permits.get(slot);
        let waiting = permit.waiting();
        if self.is_former(waiting) {
            return (self.waiting() as u64, Offer { at: now, limited_by: None });
        }
        if let Some((limit, key_queue)) = self.key_queue_of(waiting) {
            let QueueDemand { count, backlog } = key_queue.ahead_of(waiting.key_position());
            let of_key = |charge: &KeyCharge| if charge.limit == limit { backlog } else { Credit::ZERO };
            let (shared, tier) = (Backlog::none(&self.resource), self.tier(waiting.class));
            return (count as u64, self.ledger.paid_after(now, &shared, of_key, &permit.bill, tier));
        }
        let (more_urgent, own) = (self.queues.before(waiting.class), self.queues.class(waiting.class));
        let (count, mut backlog) = own.order().ahead_of(&self.resource, waiting.position.turn);
        backlog.add_all(&self.backlog_of(more_urgent));
        let ahead = count + more_urgent.iter().map(|queue| queue.order().len()).sum::<usize>();
        (ahead as u64, self.expected(now, permit, &backlog))
    }

    /// When a waiting request will probably start behind `backlog`. It is no sooner than both costs
    /// are paid, and than its turn comes at the recent pace, as later requests may go first.
    pub(crate) fn expected(&self, now: Time, permit: &Permit<R>, backlog: &Backlog) -> Offer {
        let waiting = permit.waiting();
        let tier = self.tier(waiting.class);
        let paid = self.ledger.paid_after(now, backlog, |_| Credit::ZERO, &permit.bill, tier);
        let turn = self.queues.class(waiting.class).time_until(&waiting.position);
        let own = self.resource.dominant_share(&permit.bill);
        let at = turn.map_or(paid.at, |turn| paid.at.max(now + turn + own));
        Offer { at, ..paid }
    }
}
