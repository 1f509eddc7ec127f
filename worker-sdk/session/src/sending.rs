//! What a session sends and repeats.

use crate::Session;
use crate::command::Command;
use crate::event::{AskNumber, BatchNumber, ResourceNumber};
use crate::outbox::MessageGroup;
use crate::outbox::outbox_of;
use crate::outbox::payload::ArrayPayload;
use rampmeter_protocol::time::{Span, Time};

/// Time over which workers spread their first requests to a new leader, of whom all hear at once.
const REASK_JITTER: Span = Span::from_millis(20);
/// After an outage, workers spread their requests over this part of its length, because a long wait
/// can become a little longer. A fail-over of a second is too short for that.
const OUTAGE_PER_JITTER: u64 = 64;
/// The upper bound of that time: a thousand workers within it are four in a millisecond.
const MAX_REASK_JITTER: Span = Span::from_millis(250);

impl Session {
    /// Notes that messages may be delivered (again).
    pub(crate) fn connected(&mut self, now: Time) {
        let away = self.disconnected_at.take().map_or(Span::ZERO, |since| now.since(since));
        self.connected = true;
        for index in 0..self.outboxes.len() {
            let resource = ResourceNumber(index as u32);
            let silence = self.silence(now, resource).max(away);
            self.ask_all_again(now, resource, silence);
        }
    }

    /// Notes that no answer can arrive from now on.
    pub(crate) fn disconnected(&mut self, now: Time) {
        if self.connected {
            self.connected = false;
            self.disconnected_at = Some(now);
            self.asks.expect_answers(now);
            self.outboxes.iter_mut().for_each(|outbox| outbox.schedulers.reachability.expect(now));
        }
    }

    pub(crate) fn undelivered(&mut self, now: Time, batch: BatchNumber) {
        for number in self.asks.of_batch(batch) {
            self.ask_later(now, number);
        }
        self.renewals_undelivered(now, batch);
        for outbox in &mut self.outboxes {
            if outbox.settles.undelivered(batch) {
                outbox.backoff.fail(now, &mut self.dice);
            }
        }
    }

    pub(crate) fn ask_later(&mut self, now: Time, number: AskNumber) {
        let Some(resource) = self.asks.get(number).map(|ask| ask.resource) else { return };
        self.ask_again(now, number);
        let outbox = outbox_of(&mut self.outboxes, resource);
        outbox.backoff.fail(now, &mut self.dice);
    }

    pub(crate) fn ask_again(&mut self, now: Time, number: AskNumber) {
        let Some(ask) = self.asks.get_mut(number) else { return };
        ask.unsend(now);
        let (resource, was_sent) = (ask.resource, ask.was_sent());
        let group = self.message_group(number);
        let outbox = self.outbox(resource);
        outbox.enter(number, was_sent, group);
        outbox.schedulers.reachability.expect(now);
    }

    /// Sends everything again. After a long silence the scheduler may know none of the asks; since
    /// it answers now, the back-off ends. Asks never sent wait only if other clients waited too.
    pub(crate) fn ask_all_again(&mut self, now: Time, resource: ResourceNumber, silence: Span) {
        let most = reask_jitter(silence);
        let again = self.asks.unsend_all_of(now, resource);
        self.outbox(resource).settles.send_all_again();
        let opens = now + self.dice.span_up_to(most);
        let outbox = self.outbox(resource);
        if !again.is_empty() || outbox.backoff.until() > now || most > REASK_JITTER {
            outbox.backoff.hold_until(opens);
        }
        outbox.schedulers.reachability.expect(now);
        for number in again {
            let group = self.message_group(number);
            self.outbox(resource).enter(number, true, group);
        }
    }

    pub(crate) fn message_group(&self, number: AskNumber) -> MessageGroup {
        let Some(request) = self.asks.get(number).map(|ask| &ask.request) else { return MessageGroup::default() };
        let class = request.class.clone().filter(|_| self.options.one_class_per_message);
        MessageGroup { class, is_alone: request.price.is_some() }
    }

    pub(crate) fn silence(&mut self, now: Time, resource: ResourceNumber) -> Span {
        let last_contact = self.outbox(resource).schedulers.reachability.last_contact();
        let unanswered = self.asks.unanswered_since(resource);
        unanswered.map_or(Span::ZERO, |since| now.since(since.max(last_contact)))
    }

    /// Returns the next message: renewals, whose time is short, then settles, then asks, which returned permits
    /// may serve. Resources share one budget of resends in turns: the one with the oldest last resend is next.
    pub(crate) fn send(&mut self, now: Time) -> Option<Command> {
        if !self.connected {
            return None;
        }
        if let Some(renewals) = self.renew(now) {
            return Some(renewals);
        }
        let budget = self.retries.opens();
        let open =
            self.outboxes.iter().enumerate().filter(|(_, outbox)| outbox.opens(budget).is_some_and(|at| at <= now));
        let (index, _) = open.min_by_key(|(_, outbox)| outbox.resent)?;
        let resource = ResourceNumber(index as u32);
        let batch = BatchNumber::of_settles(self.settle_batches);
        if let Some((payload, traces)) = self.outboxes[index].settles.take(batch) {
            self.settle_batches += 1;
            return Some(Command::Settle { resource, batch, payload, traces });
        }
        Some(self.send_asks(now, resource))
    }

    fn send_asks(&mut self, now: Time, resource: ResourceNumber) -> Command {
        let batch = self.next_batch();
        let outbox = outbox_of(&mut self.outboxes, resource);
        let again = self.retries.opens() <= now;
        if again && outbox.has_resends() {
            self.retries.spend(now, &mut self.dice);
            outbox.resent = now;
        }
        if outbox.schedulers.reachability.is_lost() {
            // An absent scheduler reports no failure, so silence counts as one.
            outbox.backoff.fail(now, &mut self.dice);
        }
        let group = outbox.next_group(again);
        let mut array = ArrayPayload::default();
        while !array.is_full() && (array.is_empty() || !group.is_alone) {
            let Some(number) = outbox.next(again, &group) else { break };
            let request = self.asks.send(now, number, batch, outbox.schedulers.epoch.get());
            array.push_traced(request, request.trace);
        }
        let (payload, traces) = array.finish_traced();
        Command::Ask { resource, class: group.class, batch, payload, traces }
    }
}

fn reask_jitter(silence: Span) -> Span {
    let part = Span::from_nanos(silence.nanos() / OUTAGE_PER_JITTER);
    part.clamp(REASK_JITTER, MAX_REASK_JITTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `MAX_REASK_JITTER`: an outage of 16 s and every longer one.
    #[test]
    fn the_delay_after_a_silence_grows_up_to_a_quarter_of_a_second() {
        let table = [(0, 20), (1280, 20), (3200, 50), (16_000, 250), (16_064, 250), (86_400_000, 250)];
        for (silence, delay) in table {
            assert_eq!(reask_jitter(Span::from_millis(silence)), Span::from_millis(delay), "{silence} ms");
        }
    }
}
