//! Telling those who wait how they stand: at once, when the plan has changed, and every few seconds.

use crate::command::Command;
use crate::gate::Crowd;
use crate::ledger::{Backlog, Offer};
use crate::line::Line;
use crate::scheduler::Scheduler;
use crate::slab::Slot;
use rampmeter_protocol::time::{Span, Time};

/// How often everybody is told; the protocol promises 5 s.
const REGULARLY: Span = Span::from_secs(3);
/// How soon a changed plan is told after the last walk along the lines.
const SOONEST: Span = Span::from_millis(250);
/// As much again for each who waits: a walk takes a few hundredths of it.
const FOR_EACH: Span = Span::from_nanos(100_000);
/// What makes less of a difference than this, or than a tenth of the wait, is no news.
const LEAST_DIFFERENCE: Span = Span::from_millis(100);

/// When news were told, and are to be told next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    /// The last walk along the lines.
    walked: Time,
    /// When everybody is told.
    regularly: Time,
    /// Whether something has changed since then that others plan with.
    changed: bool,
}

impl News {
    pub(crate) fn new(now: Time) -> Self {
        News { walked: now, regularly: now + REGULARLY, changed: false }
    }

    /// Notes whether something has changed that those who wait plan with.
    pub(crate) fn note(&mut self, changed: bool) {
        self.changed |= changed;
    }
}

impl<R: Clone> Scheduler<R> {
    /// When those who wait are told how they stand.
    pub(crate) fn next_news(&self) -> Time {
        if !self.news.changed {
            return self.news.regularly;
        }
        let pause = Span::from_nanos(SOONEST.nanos() + FOR_EACH.nanos() * self.waiting() as u64);
        self.news.regularly.min(self.news.walked + pause)
    }

    /// Tells those who wait how they stand, in one walk along the lines: everybody when it is time, and whom a changed plan
    /// concerns between.
    pub(crate) fn tell_news(&mut self, now: Time) {
        let everybody = self.news.regularly <= now;
        let regularly = if everybody { now + REGULARLY } else { self.news.regularly };
        self.news = News { walked: now, regularly, changed: false };
        let (mut ahead, mut backlog) = (0, Backlog::none(&self.resource));
        let mut news = Vec::new();
        for slot in self.lines.iter().flat_map(Line::iter) {
            let permit = self.permits.get(slot);
            news.extend(self.news_of(now, slot, everybody, || (ahead, self.expected(now, permit, &backlog))));
            ahead += 1;
            backlog.add(&self.resource, &permit.bill);
        }
        for gate in self.gates() {
            self.note_news_at_gate(now, gate, everybody, &mut news);
        }
        news.into_iter().for_each(|(slot, position, offer)| self.tell_offer(now, slot, position, offer));
    }

    /// One walk along the line of a gate.
    fn note_news_at_gate(&self, now: Time, gate: Slot, everybody: bool, news: &mut Vec<(Slot, u64, Offer)>) {
        let Some(line) = self.ledger.keys.get(gate).and_then(|known| known.gate.as_ref()) else { return };
        let mut ahead = Crowd::default();
        for (slot, cost) in line.iter() {
            let expected = || self.expected_at_gate(now, self.permits.get(slot), gate, ahead.backlog);
            news.extend(self.news_of(now, slot, everybody, || (ahead.count as u64, expected())));
            ahead = ahead.with(cost);
        }
    }

    /// What one that waits is to be told, if it wants to know and that differs from what it was told before.
    fn news_of(
        &self,
        now: Time,
        slot: Slot,
        everybody: bool,
        outlook: impl FnOnce() -> (u64, Offer),
    ) -> Option<(Slot, u64, Offer)> {
        let waiting = self.permits.get(slot).waiting();
        let (position, offer) = waiting.progress.then(outlook)?;
        (everybody || is_news(now, waiting.told, offer.at)).then_some((slot, position, offer))
    }

    /// Tells one who waits how it stands, if it wants to know.
    pub(crate) fn tell(&mut self, now: Time, slot: Slot) {
        if self.permits.get(slot).waiting().progress {
            let (position, offer) = self.outlook(now, slot);
            self.tell_offer(now, slot, position, offer);
        }
    }

    fn tell_offer(&mut self, now: Time, slot: Slot, position: u64, offer: Offer) {
        let permit = self.permits.get_mut(slot);
        let id = permit.id.clone();
        let waiting = permit.waiting_mut();
        waiting.told = Some(offer.at);
        let (to, eta, limited_by) = (waiting.to.clone(), offer.at.since(now), offer.limited_by);
        self.push(Command::Queued { to, id, position, eta, limited_by });
    }
}

/// Whether a start differs enough from what was told.
fn is_news(now: Time, told: Option<Time>, at: Time) -> bool {
    let Some(told) = told else { return true };
    let difference = at.since(told).max(told.since(at));
    let tenth = Span::from_nanos(told.since(now).nanos() / 10);
    difference > tenth.max(LEAST_DIFFERENCE)
}
