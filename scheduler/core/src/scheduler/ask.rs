//! Asking for a permit.

use super::Scheduler;
use super::granting::Answered;
use crate::collections::Slot;
use crate::event::Ask;
use crate::ledger::Offer;
use crate::limits::NEAR;
use crate::permits::{Stage, State};
use crate::policy::{Bill, MAX_PERIOD};
use crate::queue::UPDATE_INTERVAL;
use crate::refusal::{Bounded, Refusal};
use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};

/// The latest start of a waiting request without `max_wait`. No limit has a longer period.
const FARTHEST_START: Span = MAX_PERIOD;
/// When to ask again after a bound was reached: long enough for some requests to be served.
pub(crate) const RETRY_AFTER_BOUND: Span = Span::from_secs(1);

impl<R: Clone> Scheduler<R> {
    /// Takes a new request: corrects its estimate by its kind, and counts it for its client.
    pub(crate) fn ask_first(&mut self, now: Time, ask: Ask<R>) {
        let client = self.meter.number(now, ask.client.as_deref().unwrap_or_default());
        let bill = self.cost_estimates.correct(&self.resource, ask.bill).of_client(client);
        self.ask(now, Ask { bill, ..ask });
    }

    /// Takes a new request, or one that has waited for the store.
    pub(crate) fn ask(&mut self, now: Time, ask: Ask<R>) {
        if self.term.is_ending() {
            return self.refuse(ask.to, Some(ask.id), Refusal::HandingOver);
        }
        if let Some(slot) = self.permits.find(&ask.id) {
            return self.answer_repeated(now, slot, ask);
        }
        if self.pending.has(&ask.id) {
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

    /// The refusal of a bill that needs a spent quota.
    pub(crate) fn spent_quota(&self, now: Time, bill: &Bill) -> Option<Refusal> {
        let (until, limit) = self.ledger.last_spent_quota(now, bill, self.plan.holds().map(|hold| hold.start))?;
        let retry_after = (until < Time::NEVER).then(|| until.since(now));
        Some(Refusal::QuotaSpent { limit, retry_after })
    }

    /// Whether there is room for the buckets of a bill's keys.
    pub(crate) fn check_keys(&mut self, now: Time, bill: &Bill) -> Result<(), Refusal> {
        match self.ledger.limit_without_room(now, bill) {
            Some(limit) => {
                let bound = self.ledger.keys.bound();
                Err(Refusal::TooManyKeys { limit, bound, retry_after: RETRY_AFTER_BOUND })
            }
            None => Ok(()),
        }
    }

    /// Whether there is room for one more permit, and for the buckets of its keys.
    pub(crate) fn check_room(&mut self, now: Time, bill: &Bill) -> Result<(), Refusal> {
        self.check_keys(now, bill)?;
        if !self.permits.has_room(now) {
            let bound = self.resource.spec().bounds.max_permits;
            return Err(Refusal::BoundReached { what: Bounded::Remembered, bound, retry_after: RETRY_AFTER_BOUND });
        }
        Ok(())
    }

    /// Repeats the answer, as long as the margin pays for the late start. A lapsed permit stays
    /// charged until it is settled, as its call may have been made. A settled one is used up:
    /// another call under its id would be free.
    fn answer_repeated(&mut self, now: Time, slot: Slot, ask: Ask<R>) {
        if self.is_anothers(slot, &ask) {
            return self.refuse(ask.to, Some(ask.id), Refusal::IdInUse);
        }
        let permit = self.permits.get_mut(slot);
        permit.learn_identity(ask.identity);
        match &mut permit.state {
            State::Returned => self.refuse(ask.to, Some(ask.id), Refusal::UnknownPermit),
            // The start is sent once the store knows of it.
            State::Granted(granted) if granted.stage == Stage::Promised => {
                self.refuse(ask.to, Some(ask.id), Refusal::StoreSilent);
            }
            State::Granted(granted) if !granted.is_open() => {
                self.refuse(ask.to, Some(ask.id), Refusal::AlreadySettled);
            }
            State::Granted(granted) if granted.start.at + LATENESS < now => {
                self.refuse(ask.to, Some(ask.id), Refusal::Lapsed);
            }
            State::Granted(granted) => {
                let granted = *granted;
                self.answer(now, slot, ask.to, granted, Answered::Repeated);
            }
            State::Waiting(_) if ask.mode != Mode::Wait => {
                self.refuse(ask.to, Some(ask.id), Refusal::RepeatCannotWait);
            }
            State::Waiting(waiting) => {
                waiting.to = ask.to;
                self.queues.set_next_update(slot, waiting, ask.progress.then_some(now + UPDATE_INTERVAL));
                self.update_if_wanted(now, slot);
            }
        }
    }

    /// Whether the id belongs to another request, which waits or has a permit that is not settled.
    fn is_anothers(&self, slot: Slot, ask: &Ask<R>) -> bool {
        let permit = self.permits.get(slot);
        let in_use = permit.as_waiting().is_some() || permit.granted().is_some_and(|granted| granted.is_open());
        in_use && !permit.identity.may_be(ask.identity)
    }

    /// Answers at once, with a binding start within `latest` from now.
    fn reserve(&mut self, now: Time, ask: Ask<R>, latest: Span) {
        let offer = self.waits(now).offer_behind_queue(ask.class, &ask.bill);
        if offer.at.since(now) > latest {
            let refusal = self.too_late(now, &ask, offer);
            return self.refuse(ask.to, Some(ask.id), refusal);
        }
        if self.waits(now).is_covered(&ask.bill, offer.at) {
            self.grant(now, ask, offer, now + latest);
        } else if self.pending.len() >= self.resource.spec().bounds.max_waiting {
            let bound = self.resource.spec().bounds.max_waiting;
            let refusal = Refusal::BoundReached { what: Bounded::Pending, bound, retry_after: RETRY_AFTER_BOUND };
            self.refuse(ask.to, Some(ask.id), refusal);
        } else if offer.at <= now + NEAR {
            // The next checkpoint has a budget for this request.
            self.answer_later(now, ask, offer.at);
        } else {
            self.promise(now, ask, offer, now + latest);
        }
    }

    /// The refusal of a request whose start is later than it allows, or too far ahead to be
    /// reserved.
    fn too_late(&self, now: Time, ask: &Ask<R>, offer: Offer) -> Refusal {
        let (delay, bound) = (offer.at.since(now), self.resource.max_ahead());
        let would_take_it =
            offer.at < Time::NEVER && ask.mode == Mode::Reserve && ask.max_wait.is_none_or(|most| delay <= most);
        match would_take_it {
            true => Refusal::TooFarAhead { delay, bound, limited_by: offer.limited_by },
            false => offer.not_in_time(now),
        }
    }

    /// Lets a request wait for its turn. If no other request waits and its start is within the
    /// horizon, it is granted now.
    fn wait(&mut self, now: Time, ask: Ask<R>) {
        let offer = self.ledger.earliest(now, &ask.bill, self.resource.tier(ask.class));
        let delay = offer.at.since(now);
        let too_late = |max| self.ledger.misses(now, &ask.bill, self.resource.tier(ask.class), offer, now + max);
        if ask.max_wait.is_some_and(too_late) {
            let behind = self.waits(now).offer_behind_queue(ask.class, &ask.bill);
            return self.refuse(ask.to, Some(ask.id), behind.not_in_time(now));
        }
        let waiting = self.waiting();
        let may_go =
            || self.waits(now).is_covered(&ask.bill, offer.at) && self.ledger.unproven(now, &ask.bill).is_none();
        if waiting == 0 && delay <= self.resource.spec().horizon && may_go() {
            let latest = now + ask.max_wait.unwrap_or(FARTHEST_START);
            return self.grant(now, ask, offer, latest);
        }
        if let Some(refusal) = self.queue_full(&ask, waiting) {
            return self.refuse(ask.to, Some(ask.id), refusal);
        }
        self.join_queue(now, ask, offer.at);
    }
}
