//! Asking for a permit.

use super::Scheduler;
use super::permits::{Granted, Permit, Stage, State};
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::event::Ask;
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

/// Farthest start that is promised: beyond the longest period nothing can be foreseen.
const MAX_AHEAD: Span = MAX_PERIOD;
/// When to come back after a bound was reached: long enough for some to be served.
const AFTER_BOUND: Span = Span::from_secs(1);

impl<R: Clone> Scheduler<R> {
    pub(crate) fn ask(&mut self, now: Time, ask: Ask<R>) {
        if self.handing_over {
            return self.refuse(ask.to, ask.id, Refusal::Unavailable);
        }
        if let Some(slot) = ask.id.as_ref().and_then(|id| self.permits.find(id)) {
            return self.ask_again(now, slot, ask);
        }
        if let Some(refusal) = self.spent_quota(now, &ask.bill) {
            return self.refuse(ask.to, ask.id, refusal);
        }
        if let Err(refusal) = self.check_room(now, &ask.bill) {
            return self.refuse(ask.to, ask.id, refusal);
        }
        match ask.mode {
            Mode::Allow => self.book(now, ask, Span::ZERO),
            Mode::Reserve => {
                let latest = ask.max_wait.unwrap_or(MAX_AHEAD).min(MAX_AHEAD);
                self.book(now, ask, latest);
            }
            Mode::Wait => self.wait(now, ask),
        }
    }

    /// Whether there is room for one more permit, and for buckets of its keys.
    pub(crate) fn check_room(&mut self, now: Time, bill: &Bill) -> Result<(), Refusal> {
        let keys = &mut self.ledger.keys;
        if let Some(new) = bill.keyed().find(|charge| !keys.has_room_for(now, charge)) {
            return Err(Refusal::TooManyKeys { limit: new.limit, bound: keys.bound(), retry_after: AFTER_BOUND });
        }
        // What costs nothing takes no place, or one in line.
        if !bill.is_empty() && !self.permits.has_room(now) {
            let bound = self.resource.spec().bounds.max_permits;
            return Err(Refusal::QueueFull { what: "remembered permits", bound, retry_after: AFTER_BOUND });
        }
        Ok(())
    }

    /// The same answer again, as long as its start is no later than the margin pays for. What has lapsed stays charged until it is
    /// settled, for its call may have been made.
    fn ask_again(&mut self, now: Time, slot: Slot, ask: Ask<R>) {
        match &mut self.permits.get_mut(slot).state {
            State::Returned => self.refuse(ask.to, ask.id, Refusal::UnknownPermit),
            // Its answer is on its way as soon as the store knows of it.
            State::Granted(granted) if granted.stage == Stage::Promised => {
                self.refuse(ask.to, ask.id, Refusal::Unavailable);
            }
            State::Granted(granted) if granted.is_open() && granted.key.at + LATENESS < now => {
                self.refuse(ask.to, ask.id, Refusal::Lapsed);
            }
            State::Granted(granted) => {
                let granted = *granted;
                self.answer(now, slot, ask.to, granted, Span::ZERO, true);
            }
            State::Waiting(_) if ask.mode != Mode::Wait => self.refuse(ask.to, ask.id, Refusal::StillWaiting),
            State::Waiting(waiting) => {
                waiting.to = ask.to;
                waiting.progress = ask.progress;
                self.queues.updates.enlist(waiting.arrival, slot, ask.progress);
                self.tell(now, slot);
            }
        }
    }

    /// Answers at once, with a start within `latest` that nobody takes away.
    fn book(&mut self, now: Time, ask: Ask<R>, latest: Span) {
        let offer = self.offer_behind_queue(now, ask.class, &ask.bill);
        if offer.at.since(now) > latest {
            return self.refuse(ask.to, ask.id, offer.not_in_time(now));
        }
        if self.is_covered(&ask.bill, offer.at) {
            self.grant(now, ask, offer, now + latest);
        } else if offer.at <= now + NEAR {
            // The next checkpoint has a budget for it.
            self.hold(now, ask, offer.at);
        } else {
            self.promise(now, ask, offer, now + latest);
        }
    }

    /// Waits for the turn; with nobody in line and a start within the horizon that is now.
    fn wait(&mut self, now: Time, ask: Ask<R>) {
        let offer = self.ledger.earliest(now, &ask.bill, self.tier(ask.class));
        let delay = offer.at.since(now);
        let too_late = |most| delay > most && self.ledger.soonest(now, &ask.bill, self.tier(ask.class)) > now + most;
        if ask.max_wait.is_some_and(too_late) {
            let behind = self.offer_behind_queue(now, ask.class, &ask.bill);
            return self.refuse(ask.to, ask.id, behind.not_in_time(now));
        }
        let waiting = self.waiting();
        let may_go = || self.is_covered(&ask.bill, offer.at) && self.ledger.unproven(now, &ask.bill).is_none();
        if waiting == 0 && delay <= self.resource.spec().horizon && may_go() {
            let latest = now + ask.max_wait.unwrap_or(MAX_AHEAD);
            return self.grant(now, ask, offer, latest);
        }
        if let Some(refusal) = self.queue_full(&ask, waiting) {
            return self.refuse(ask.to, ask.id, refusal);
        }
        self.join_queue(now, ask, offer.at);
    }

    /// The refusal of one for whom there is no place beside so many who wait.
    fn queue_full(&self, ask: &Ask<R>, waiting: usize) -> Option<Refusal> {
        let bound = self.resource.spec().bounds.max_waiting;
        let free = bound.saturating_sub(waiting);
        let client = ask.client.clone().unwrap_or_default();
        let what = match free {
            0 => "waiting requests",
            _ if !self.queues.admits(free, &client, &ask.bill) => "waiting requests, most of them this client's",
            _ => return None,
        };
        Some(Refusal::QueueFull { what, bound, retry_after: AFTER_BOUND })
    }

    /// The earliest start that leaves to those of the same and of more urgent classes who wait
    /// what they wait for.
    fn offer_behind_queue(&self, now: Time, class: ClassId, bill: &Bill) -> Offer {
        let tier = self.tier(class);
        let mut behind = Offer { at: now, limited_by: None };
        if self.queues.through(class).iter().any(|queue| queue.waiting() > 0) {
            let backlog = self.backlog_through(class);
            behind = self.ledger.paid_behind(now, &backlog, |charge| self.crowd(charge, class), bill, tier);
        }
        let offer = self.ledger.earliest(behind.at, bill, tier);
        Offer { limited_by: offer.limited_by.or(behind.limited_by), ..offer }
    }

    /// What `class` and the more urgent ones wait for.
    pub(crate) fn backlog_through(&self, class: ClassId) -> Backlog {
        self.backlog_of(self.queues.through(class))
    }

    fn backlog_of(&self, queues: &[ClassQueue]) -> Backlog {
        let mut backlog = Backlog::none(&self.resource);
        queues.iter().flat_map(|queue| queue.order().backlogs()).for_each(|more| backlog.add_all(more));
        backlog
    }

    /// The start of `offer`, behind all that was promised for the same time.
    pub(crate) fn next_start(&mut self, offer: Offer, class: ClassId, stage: Stage) -> Granted {
        let key = StartKey { at: offer.at, serial: self.next_serial() };
        Granted::new(key, offer.limited_by, class, stage)
    }

    /// Grants a start that may not be later than `latest`.
    fn grant(&mut self, now: Time, ask: Ask<R>, offer: Offer, latest: Time) {
        let to = ask.to.clone();
        let (slot, granted) = self.commit_new(now, ask, offer, latest, Stage::Told);
        self.answer(now, slot, to, granted, Span::ZERO, false);
    }

    /// Commits a permit that nobody has known to a start that may not be later than `latest`.
    pub(crate) fn commit_new(
        &mut self,
        now: Time,
        ask: Ask<R>,
        offer: Offer,
        latest: Time,
        stage: Stage,
    ) -> (Slot, Granted) {
        let granted = self.next_start(offer, ask.class, stage);
        let id = self.id_or_new(ask.id);
        let slot = self.permits.insert(id, ask.bill, State::Granted(granted));
        self.commit(now, slot, granted, self.tier(ask.class), latest);
        (slot, granted)
    }

    /// At `alone` it could start if others did not come first.
    fn join_queue(&mut self, now: Time, ask: Ask<R>, alone: Time) {
        let arrival = Arrival { at: now - ask.age, serial: self.next_serial() };
        let deadline = ask.max_wait.map(|most| now + most);
        let id = self.id_or_new(ask.id);
        let client = ask.client.unwrap_or_default();
        let (to, class, progress, position) = (ask.to, ask.class, ask.progress, ClassPosition::default());
        // Most calls are what their bills tell, and take no more room.
        let call = ask.call.filter(|call| **call != Call::from_bill(&ask.bill, &self.resource));
        let waiting = Box::new(Waiting {
            to,
            class,
            arrival,
            client,
            position,
            deadline,
            progress,
            told: None,
            at_key: None,
            call,
        });
        let slot = self.permits.insert(id, ask.bill, State::Waiting(waiting));
        let permit = self.permits.get(slot);
        self.queues.list(slot, permit.waiting(), &permit.bill);
        let goes = self.enter_queue(slot) || self.may_backfill(class, alone);
        self.next_plan = self.next_plan.into_iter().chain(deadline).min();
        // Planning may start it, or refuse it for good.
        if goes {
            self.plan(now);
        }
        if self.permits.find_at(slot).and_then(Permit::as_waiting).is_some() {
            self.tell(now, slot);
            self.queues.updates.note(self.queues.is_any_behind(ask.class));
        }
    }

    /// Whether one that has just joined may start before anybody else does.
    fn enter_queue(&mut self, slot: Slot) -> bool {
        let permit = self.permits.get_mut(slot);
        let bill = Arc::clone(&permit.bill);
        let waiting = permit.waiting_mut();
        let queue = self.queues.class_mut(waiting.class);
        queue.enter(&self.resource, slot, &bill, waiting);
        queue.leads(waiting) || queue.due_before(waiting).is_none() && waiting.deadline.is_some()
    }

    /// The id that was given, or one that nobody uses.
    pub(crate) fn id_or_new(&mut self, given: Option<PermitId>) -> PermitId {
        if let Some(id) = given {
            return id;
        }
        loop {
            let id = PermitId::generated(self.epoch, self.next_serial());
            if self.permits.find(&id).is_none() {
                return id;
            }
        }
    }

    /// Takes a waiting request out of its line and refuses it.
    pub(crate) fn turn_away(&mut self, slot: Slot, refusal: Refusal) {
        let (to, id) = self.drop_waiting(slot);
        self.refuse(to, Some(id), refusal);
    }

    /// Takes a waiting request out of its line and forgets it. Where its answer would go, and its id.
    pub(crate) fn drop_waiting(&mut self, slot: Slot) -> (R, PermitId) {
        let waiting = self.take_out(slot);
        (waiting.to, self.permits.remove(slot).id)
    }

    /// How many are ahead of one who waits, and the start that they leave to it.
    pub(crate) fn outlook(&self, now: Time, slot: Slot) -> (u64, Offer) {
        let permit = self.permits.get(slot);
        let waiting = permit.waiting();
        if let Some((limit, key_queue)) = self.key_queue_of(waiting) {
            let QueueDemand { count, backlog } = key_queue.ahead_of(waiting.key_position());
            let at_gate = |charge: &KeyCharge| if charge.limit == limit { backlog } else { Credit::ZERO };
            let (nobody, tier) = (Backlog::none(&self.resource), self.tier(waiting.class));
            return (count as u64, self.ledger.paid_behind(now, &nobody, at_gate, &permit.bill, tier));
        }
        let (more_urgent, own) = (self.queues.before(waiting.class), self.queues.class(waiting.class));
        let (count, mut backlog) = own.order().ahead_of(&self.resource, waiting.position.turn);
        backlog.add_all(&self.backlog_of(more_urgent));
        let ahead = count + more_urgent.iter().map(|queue| queue.order().len()).sum::<usize>();
        (ahead as u64, self.expected(now, permit, &backlog))
    }

    /// When one who waits will probably start, behind `backlog`: as soon as that and its own cost are paid, and no sooner
    /// than its turn comes at the pace of late, for others will come and go first.
    pub(crate) fn expected(&self, now: Time, permit: &Permit<R>, backlog: &Backlog) -> Offer {
        let waiting = permit.waiting();
        let tier = self.tier(waiting.class);
        let paid = self.ledger.paid_behind(now, backlog, |_| Credit::ZERO, &permit.bill, tier);
        let turn = self.queues.class(waiting.class).time_until(&waiting.position);
        let own = self.resource.dominant_share(&permit.bill);
        let at = turn.map_or(paid.at, |turn| paid.at.max(now + turn + own));
        Offer { at, ..paid }
    }
}
