//! How a session handles the answers of a scheduler.

use crate::asks::ask::Ask;
use crate::command::{Denial, Grant};
use crate::event::{AskNumber, BatchNumber, ResourceNumber};
use crate::leases::Lease;
use crate::outbox::outbox_of;
use crate::{Session, Settle};
use rampmeter_protocol::answer::{Answer, Granted, Refused};
use rampmeter_protocol::code::{Code, Remedy};
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::lateness::{Stamped, TimelyStart};
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::{Span, Time};

/// Shortest validity of a usable permit: no task wakes up faster.
const MIN_VALID: Span = Span::from_millis(1);
/// The refusal for a client that chose its own id, if its permit came too late.
const LATE: &str = "the permit came so late that its start is past; it was given back: ask under a new id";
/// How many new ids a request may try before its refusal is reported.
const MAX_USED_UP: u32 = 100;

/// What identifies an answer: its batch, its time on the scheduler's clock, and its epoch.
#[derive(Clone, Copy)]
struct Stamp {
    batch: BatchNumber,
    at_ms: Option<u64>,
    epoch: Epoch,
}

impl Session {
    /// Handles an answer or an array of them; an unreadable one is ignored, and silence follows.
    pub(crate) fn answered(&mut self, now: Time, batch: BatchNumber, payload: &[u8]) {
        if batch.is_of_settles() {
            return self.outboxes.iter_mut().for_each(|outbox| _ = outbox.settles.confirmed(batch));
        }
        if !payload.trim_ascii_start().starts_with(b"[") {
            return serde_json::from_slice(payload).map_or((), |answer| self.handle_answer(now, batch, answer));
        }
        let answers: Vec<Answer<'_>> = serde_json::from_slice(payload).unwrap_or_default();
        for answer in answers {
            self.handle_answer(now, batch, answer);
        }
    }

    fn handle_answer(&mut self, now: Time, batch: BatchNumber, answer: Answer<'_>) {
        match answer {
            Answer::Granted(granted) => {
                if let Some(number) = self.current(now, &granted.id, granted.epoch) {
                    self.granted(now, number, batch, granted);
                }
            }
            Answer::Queued(queued) => {
                if let Some(number) = self.current(now, &queued.id, queued.epoch) {
                    let stamp = Stamp { batch, at_ms: queued.at_ms, epoch: queued.epoch };
                    self.queued(now, number, stamp, queued.limited_by);
                }
            }
            Answer::Refused(refusal) => self.refused(now, batch, &refusal),
            Answer::Settled { id, .. } => self.renewed(now, &id),
        }
    }

    /// Returns the pending ask that an answer of a current scheduler is about. A cancelled ask's permit or place in
    /// the queue is given back instead. If a deposed leader answered, the ask is sent again with the known epoch,
    /// from which that leader learns that it is deposed.
    fn current(&mut self, now: Time, id: &str, epoch: Epoch) -> Option<AskNumber> {
        let number = self.ask_of(id)?;
        if let Some(resource) = self.cancelled.get(number) {
            self.note_epoch(now, resource, epoch);
            let settle = Settle::unused(self.ids.id(number));
            self.outbox(resource).settles.push(settle);
            return None;
        }
        let resource = self.asks.get(number)?.resource;
        if !self.note_epoch(now, resource, epoch) {
            self.ask_later(now, number);
            return None;
        }
        self.outbox(resource).backoff.succeed();
        Some(number)
    }

    /// Notes the epoch of an answer, and returns whether that counts: a deposed leader's does not.
    fn note_epoch(&mut self, now: Time, resource: ResourceNumber, epoch: Epoch) -> bool {
        if self.outbox(resource).schedulers.epoch.is_past(now, epoch) {
            return false;
        }
        let is_new = self.outbox(resource).schedulers.epoch.confirm(epoch);
        self.note_contact(now, resource, is_new);
        true
    }

    /// Completes an ask. The delay counts from when the answer would have arrived in time.
    fn granted(&mut self, now: Time, number: AskNumber, batch: BatchNumber, answer: Granted<'_>) {
        let Ok(delay) = Millis::new(answer.delay_ms) else { return };
        let (valid, lease) = (span(answer.valid_ms), span(answer.lease_ms));
        let stamp = Stamp { batch, at_ms: answer.at_ms, epoch: answer.epoch };
        let in_time = self.in_time(now, number, stamp, delay.span());
        let is_usable = valid.is_none_or(|valid| valid >= MIN_VALID);
        let Some(TimelyStart { after, late }) = in_time.filter(|_| is_usable) else { return self.lapsed(now, number) };
        let Some(ask) = self.remove(number) else { return };
        let (since, resource, was_sent_again) = (ask.since, ask.resource, ask.was_sent_again());
        let (request, start) = (ask.into_request(), now + after);
        let grant = Grant { since, request, received: now, start, late, valid, answer: answer.into_owned() };
        if let Some(span) = lease.filter(|span| self.options.renews && *span > Span::ZERO) {
            // A lost answer may have granted the permit long ago.
            self.leases.begin(number, Lease::new(resource, grant.asked(), start, span, was_sent_again));
        }
        self.complete(number, Ok(grant));
    }

    /// Returns when a permit's call starts; `None` if that is later than the margin allows.
    fn in_time(&mut self, now: Time, number: AskNumber, stamp: Stamp, delay: Span) -> Option<TimelyStart> {
        let ask = self.asks.get_mut(number)?;
        let base_delay = &mut outbox_of(&mut self.outboxes, ask.resource).schedulers.base_delay;
        let start = base_delay.start(stamp.of(ask, now), delay, ask.late);
        ask.late = start.err();
        start.ok()
    }

    /// Gives back a permit that lapsed while its answer was on its way, and asks for another one.
    fn lapsed(&mut self, now: Time, number: AskNumber) {
        let Some(ask) = self.asks.get(number) else { return };
        let (resource, id, keeps_id) = (ask.resource, ask.id(), ask.keeps_id);
        self.outbox(resource).settles.push(Settle::unused(id.clone()));
        if !keeps_id {
            return self.go_on_renamed(now, number);
        }
        let id = Some(Text::from(id.as_str()));
        self.deny(now, number, &Refused { id, ..Refused::new(Code::Lapsed, LATE) });
    }

    /// Continues the ask under a new id at its age, because the returned id would be refused.
    fn go_on_renamed(&mut self, now: Time, number: AskNumber) {
        self.ids.rename(number);
        let renamed = self.ids.id(number);
        if let Some(ask) = self.asks.get_mut(number) {
            ask.rename(renamed);
            ask.note_answer(now);
        }
        self.ask_later(now, number);
    }

    fn queued(&mut self, now: Time, number: AskNumber, stamp: Stamp, limited_by: Option<Text<'_>>) {
        if let Some(ask) = self.asks.get_mut(number) {
            outbox_of(&mut self.outboxes, ask.resource).schedulers.base_delay.observe(stamp.of(ask, now));
            ask.note_answer(now);
            ask.limited_by = boxed(limited_by);
        }
    }

    /// A refusal without an id concerns the whole batch.
    fn refused(&mut self, now: Time, batch: BatchNumber, refusal: &Refused<'_>) {
        let meant = match refusal.id.as_deref() {
            Some(id) => self.ask_of(id).into_iter().collect(),
            None => self.asks.of_batch(batch),
        };
        for number in meant {
            match self.leases.get(number) {
                Some(_) => self.renewal_refused(now, number, refusal),
                None => self.refuse(now, number, refusal),
            }
        }
    }

    /// An epoch of 0 belongs to no leader: the refusing scheduler does not lead the resource.
    fn refuse(&mut self, now: Time, number: AskNumber, refusal: &Refused<'_>) {
        let pending = self.asks.get(number).map(|ask| ask.resource);
        let Some(resource) = pending.or_else(|| self.cancelled.get(number)) else { return };
        let remedy = refusal.code.remedy();
        if self.relays && remedy == Remedy::Repeat {
            // To a relay's clients, a scheduler that may not answer is none.
            return self.ask_later(now, number);
        }
        if refusal.epoch == Epoch::NONE {
            self.note_contact(now, resource, false);
        } else if !self.note_epoch(now, resource, refusal.epoch) {
            return self.ask_later(now, number);
        }
        let keeps_id = self.asks.get(number).is_some_and(|ask| ask.keeps_id);
        let come_back = match remedy {
            Remedy::Repeat => return self.ask_later(now, number),
            Remedy::ReturnAndReplace if !keeps_id => return self.lapsed(now, number),
            Remedy::Replace if self.ids.renamings(number) < MAX_USED_UP && !keeps_id => {
                return self.go_on_renamed(now, number);
            }
            Remedy::ComeBack => self.come_back_at(now, number, refusal),
            Remedy::ReturnAndReplace | Remedy::Replace | Remedy::GiveUp | Remedy::Change => None,
        };
        self.outbox(resource).backoff.succeed();
        match come_back {
            Some(then) => self.postpone(number, then),
            None => self.deny(now, number, refusal),
        }
    }

    /// Returns when to ask again: a caller that would wait in a queue also waits for space in it.
    fn come_back_at(&mut self, now: Time, number: AskNumber, refusal: &Refused<'_>) -> Option<Time> {
        let waits = |ask: &&Ask| ask.request.mode == Mode::Wait && !self.relays;
        let ask = self.asks.get(number).filter(waits)?;
        let after = refusal.retry_after()?;
        Some(now + self.dice.jittered(after)).filter(|then| *then < ask.deadline)
    }

    fn postpone(&mut self, number: AskNumber, until: Time) {
        self.asks.postpone(number, until);
        if let Some(resource) = self.asks.get(number).map(|ask| ask.resource) {
            self.outbox(resource).leave(number);
        }
    }

    /// Refuses the ask. A copy of the request may still be granted, say after a shortage.
    fn deny(&mut self, now: Time, number: AskNumber, refusal: &Refused<'_>) {
        let Some(ask) = self.remove(number) else { return };
        if ask.was_sent_again() {
            self.cancelled.insert(now, number, ask.resource);
        }
        self.complete(number, Err(Denial::Refused(refusal.clone().into_owned())));
    }
}
impl Stamp {
    fn of(self, ask: &Ask, received: Time) -> Stamped {
        let Stamp { batch, at_ms, epoch } = self;
        Stamped { asked: ask.asked(batch), received, at_ms, epoch }
    }
}

/// Returns a duration of an answer; an invalid one is ignored.
fn span(millis: Option<f64>) -> Option<Span> {
    millis.and_then(|millis| Millis::new(millis).ok()).map(Millis::span)
}

fn boxed(text: Option<Text<'_>>) -> Option<Box<str>> {
    text.map(|text| Box::from(&*text))
}
