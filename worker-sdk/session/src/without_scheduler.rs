//! What a session does while no scheduler answers.

use super::Session;
use super::command::{Command, Denial, Grant};
use super::event::{AskNumber, ResourceNumber};
use super::outbox::outbox_of;
use super::silence::known_schedulers::KnownSchedulers;
use super::silence::reachability::Verdict;
use crate::bucket::Bucket;
use crate::fallback::policy::FallbackPolicy;
use crate::fallback::unreachable::Unreachable;
use rampmeter_protocol::answer::Granted;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};

/// Validity of a local permit: kept for longer, it might be used at the moment of the next one.
const LOCAL_VALID: Span = Span::from_secs(1);

impl Session {
    /// Sets what to do while no scheduler of `resource` answers; [`Unreachable::Wait`] by default.
    pub fn set_unreachable(&mut self, resource: ResourceNumber, policy: Unreachable) {
        let outbox = self.outbox(resource);
        outbox.schedulers.fallback = FallbackPolicy::from(policy);
        outbox.schedulers.reachability.set_patience(policy.patience());
    }

    /// Checks which schedulers no longer answer, for each resource whose check is due.
    pub(super) fn check_reachability(&mut self, now: Time) {
        for index in 0..self.outboxes.len() {
            if self.outboxes[index].schedulers.reachability.is_due(now) {
                self.check_resource(now, ResourceNumber(index as u32));
            }
            self.outboxes[index].schedulers.reachability.expire(now);
        }
    }

    fn check_resource(&mut self, now: Time, resource: ResourceNumber) {
        let oldest = self.asks.oldest_sent(resource);
        let unanswered = self.asks.unanswered_since(resource);
        // A relay has its clients wait as long as the scheduler has reported that they wait.
        let others_wait = oldest.is_some() && !self.relays;
        let verdict = self.outbox(resource).schedulers.reachability.check(now, unanswered, others_wait);
        if verdict == Verdict::Lost {
            self.stagger(now, resource);
        }
        if verdict != Verdict::Reachable {
            // A running scheduler answers this message.
            oldest.into_iter().for_each(|oldest| self.ask_again(now, oldest));
        }
    }

    /// Reports silent schedulers for each resource whose check is due.
    pub(super) fn report_silence(&mut self, now: Time) {
        for index in 0..self.outboxes.len() {
            if self.outboxes[index].schedulers.silence_report.next_look() > now {
                continue;
            }
            let resource = ResourceNumber(index as u32);
            let unanswered = self.asks.unanswered_since(resource);
            let is_pending = self.asks.of_resource(resource).next().is_some();
            let KnownSchedulers { reachability, silence_report, .. } = &mut self.outboxes[index].schedulers;
            let silent = unanswered.map(|since| since.max(reachability.last_contact())).or(reachability.lost_since());
            if let Some(silence) = silence_report.look(now, silent) {
                self.results.push_back(Command::Silent { resource, silence });
            } else if silent.is_none() && !is_pending {
                silence_report.rest();
            }
        }
    }

    /// Spreads the first local permits, because a whole fleet may lose its scheduler at once.
    fn stagger(&mut self, now: Time, resource: ResourceNumber) {
        let outbox = outbox_of(&mut self.outboxes, resource);
        outbox.schedulers.fallback.stagger(now.max(outbox.schedulers.frozen_until), &mut self.dice);
    }

    /// Serves requests of unreachable resources locally, after all messages have been sent: an
    /// answer to them proves that a scheduler is back, even if it is too late for its request.
    pub(super) fn serve_locally(&mut self, now: Time) -> Option<Command> {
        for index in 0..self.outboxes.len() {
            if self.outboxes[index].schedulers.reachability.serves_locally(now) {
                let next = self.serve_resource(now, ResourceNumber(index as u32));
                self.outboxes[index].schedulers.reachability.serve_at(next);
            }
        }
        self.results.pop_front()
    }

    /// Serves the requests of `resource` that can be served now, and returns when the next one can.
    fn serve_resource(&mut self, now: Time, resource: ResourceNumber) -> Time {
        let waiting = self.asks.of_resource(resource).collect();
        match self.outbox(resource).schedulers.fallback {
            FallbackPolicy::Wait => Time::NEVER,
            FallbackPolicy::Refusal { after } => self.refuse_all(now, waiting, after),
            FallbackPolicy::SafeRate(mut turns) => {
                let next = self.grant_in_turn(now, waiting, &mut turns);
                self.outbox(resource).schedulers.fallback = FallbackPolicy::SafeRate(turns);
                next
            }
        }
    }

    fn refuse_all(&mut self, now: Time, waiting: Vec<AskNumber>, after: Span) -> Time {
        for number in waiting {
            let retry_after = self.dice.jittered(after);
            self.refuse_locally(now, number, retry_after);
        }
        Time::NEVER
    }

    fn grant_in_turn(&mut self, now: Time, waiting: Vec<AskNumber>, turns: &mut Bucket) -> Time {
        let mut ahead = 0;
        for number in waiting {
            if turns.opens() <= now {
                turns.take(now);
                self.grant_locally(now, number);
            } else if self.asks.get(number).is_some_and(|ask| ask.request.mode == Mode::Allow) {
                self.refuse_locally(now, number, turns.opens_behind(ahead).since(now));
            } else {
                ahead += 1;
            }
        }
        if ahead > 0 { turns.opens() } else { Time::NEVER }
    }

    fn refuse_locally(&mut self, now: Time, number: AskNumber, retry_after: Span) {
        let Some(ask) = self.asks.remove(number) else { return };
        let silence = self.outbox(ask.resource).schedulers.reachability.silence(now);
        self.end(now, number, &ask, Err(Denial::Unreachable { silence, retry_after }));
    }

    /// Grants a permit without an id, because no scheduler knows it.
    fn grant_locally(&mut self, now: Time, number: AskNumber) {
        let Some(ask) = self.asks.remove(number) else { return };
        self.withdraw(now, number, &ask);
        let since = ask.since;
        let mut request = ask.into_request();
        request.id = None;
        let (start, valid) = (now, Some(LOCAL_VALID));
        let grant = Grant { since, request, received: now, start, late: None, valid, answer: Granted::default() };
        self.complete(number, Ok(grant));
    }
}
