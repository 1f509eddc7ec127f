//! What a session sends, and what it sends again.

use super::Session;
use super::payload::ArrayPayload;
use super::vocabulary::{AskNumber, BatchNumber, Command, ResourceNumber};
use rampmeter_protocol::time::{Span, Time};

/// All workers of a fleet learn of a new leader in the same millisecond; they ask within this time.
const REASK_JITTER: Span = Span::from_millis(20);
/// After an outage they take this part of it, for whoever has waited for long can wait a little longer.
/// A fail-over of a second is none.
const OUTAGE_PER_JITTER: u64 = 64;
/// And that has an end: a thousand workers within this time are four in a millisecond.
const MOST_REASK_JITTER: Span = Span::from_millis(250);

impl Session {
    /// Messages may get through (again).
    pub(super) fn connected(&mut self, now: Time) {
        let away = self.disconnected_at.take().map_or(Span::ZERO, |since| now.since(since));
        self.connected = true;
        for index in 0..self.lanes.len() {
            let resource = ResourceNumber(index as u32);
            let silence = self.silence(now, resource).max(away);
            self.ask_all_again(now, resource, silence);
        }
    }

    /// Nobody can be heard from now on.
    pub(super) fn disconnected(&mut self, now: Time) {
        if self.connected {
            self.connected = false;
            self.disconnected_at = Some(now);
            self.asks.doubt_all(now);
            self.lanes.iter_mut().for_each(|lane| lane.reachability.expect(now));
        }
    }

    pub(super) fn undelivered(&mut self, now: Time, batch: BatchNumber) {
        for number in self.asks.of_batch(batch) {
            self.ask_later(now, number);
        }
        self.renewals_undelivered(now, batch);
    }

    /// Back into the line of what is to be sent, which opens after a back-off.
    pub(super) fn ask_later(&mut self, now: Time, number: AskNumber) {
        let Some(resource) = self.asks.get(number).map(|ask| ask.resource) else { return };
        self.ask_again(now, number);
        let lane = &mut self.lanes[resource.0 as usize];
        lane.backoff.fail(now, &mut self.dice);
    }

    /// Back into the line of what is to be sent.
    pub(super) fn ask_again(&mut self, now: Time, number: AskNumber) {
        let Some(ask) = self.asks.get_mut(number) else { return };
        ask.unsend(now);
        let lane = &mut self.lanes[ask.resource.0 as usize];
        lane.enter(number, ask.was_sent());
        lane.reachability.expect(now);
    }

    /// Whoever answers from now on, after so long a silence, may never have heard of what was sent before,
    /// and is there now: a back-off ends. What was never sent need not wait, unless others have waited too.
    pub(super) fn ask_all_again(&mut self, now: Time, resource: ResourceNumber, silence: Span) {
        let most = reask_jitter(silence);
        let again = self.asks.unsend_all_of(now, resource);
        let opens = now + self.dice.span_up_to(most);
        let lane = self.lane(resource);
        if !again.is_empty() || lane.backoff.until() > now || most > REASK_JITTER {
            lane.backoff.hold_until(opens);
        }
        lane.reachability.expect(now);
        again.into_iter().for_each(|number| lane.enter(number, true));
    }

    /// For how long a resource's schedulers have owed a word.
    pub(super) fn silence(&mut self, now: Time, resource: ResourceNumber) -> Span {
        let heard = self.lane(resource).reachability.heard();
        let unanswered = self.asks.unanswered_since(resource);
        unanswered.map_or(Span::ZERO, |since| now.since(since.max(heard)))
    }

    /// Renewals first, for their time is short, and settles before asks: what comes back may serve those who ask. Of the lanes that would send something
    /// again, the one that has done so longest ago: they share one budget.
    pub(super) fn send(&mut self, now: Time) -> Option<Command> {
        if !self.connected {
            return None;
        }
        if let Some(renewals) = self.renew(now) {
            return Some(renewals);
        }
        let budget = self.retries.opens();
        let open = self.lanes.iter().enumerate().filter(|(_, lane)| lane.opens(budget).is_some_and(|at| at <= now));
        let (index, _) = open.min_by_key(|(_, lane)| lane.resent)?;
        let resource = ResourceNumber(index as u32);
        if let Some(payload) = self.lanes[index].take_settles() {
            return Some(Command::Settle { resource, payload });
        }
        Some(self.send_asks(now, resource))
    }

    fn send_asks(&mut self, now: Time, resource: ResourceNumber) -> Command {
        let batch = self.next_batch();
        let lane = &mut self.lanes[resource.0 as usize];
        let again = self.retries.opens() <= now;
        if again && lane.has_resends() {
            self.retries.spend(now, &mut self.dice);
            lane.resent = now;
        }
        if lane.reachability.is_lost() {
            // Who does not answer does not say either that it failed.
            lane.backoff.fail(now, &mut self.dice);
        }
        let mut array = ArrayPayload::default();
        while !array.is_full() {
            let Some(number) = lane.next(again) else { break };
            array.push(self.asks.send(now, number, batch, lane.epoch));
        }
        Command::Ask { resource, batch, payload: array.finish() }
    }
}

/// What is added by chance after so long a silence.
fn reask_jitter(silence: Span) -> Span {
    let part = Span::from_nanos(silence.nanos() / OUTAGE_PER_JITTER);
    part.clamp(REASK_JITTER, MOST_REASK_JITTER)
}
