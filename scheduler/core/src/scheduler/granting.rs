//! Granted starts: promises and sends them, and takes back those that reach no client.
//!
//! A call begins when its answer arrives. If answers are delayed, buckets refill meanwhile, and
//! the calls would come on top of the refill. Clients notice that an answer came late, and return
//! its permit. Until answers arrive in time again, waiting requests are granted nothing.

use super::Scheduler;
use crate::collections::Slot;
use crate::command::{Command, Grant};
use crate::event::Ask;
use crate::ids::ClassId;
use crate::ledger::Offer;
use crate::limits::StartKey;
use crate::permits::{Granted, Stage, State};
use crate::queue::GrantedService;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};

/// When a request gets its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    AtOnce,
    AfterWaiting(Span),
    /// The request got this start before.
    Repeated,
}

impl<R: Clone> Scheduler<R> {
    /// The start of `offer`, behind all promised starts of the same time.
    pub(crate) fn next_start(&mut self, offer: Offer, class: ClassId, stage: Stage) -> Granted {
        let key = StartKey { at: offer.at, serial: self.permits.next_serial() };
        Granted::new(key, offer.limited_by, class, stage)
    }

    /// Grants a new request a start. The request allows no start after `latest`.
    pub(crate) fn grant(&mut self, now: Time, ask: Ask<R>, offer: Offer, latest: Time) {
        let to = ask.to.clone();
        let (slot, granted) = self.commit_new(now, ask, offer, latest, Stage::Sent);
        self.answer(now, slot, to, granted, Answered::AtOnce);
    }

    /// Commits a new permit to a start. Its request allows no start after `latest`.
    pub(crate) fn commit_new(
        &mut self,
        now: Time,
        ask: Ask<R>,
        offer: Offer,
        latest: Time,
        stage: Stage,
    ) -> (Slot, Granted) {
        let granted = self.next_start(offer, ask.class, stage);
        let (client, share) = (ask.client.as_ref(), self.resource.dominant_share(&ask.bill));
        let (class, waited) = (ask.class, offer.at.since(now));
        self.recent.note(now, &GrantedService { class, client, share, waited, is_promoted: false });
        let slot = self.permits.insert(ask.id, ask.identity, ask.bill, State::Granted(granted));
        self.commit(now, slot, granted, self.resource.tier(ask.class), latest);
        (slot, granted)
    }

    /// Tells `to` the start of the permit in `slot`.
    pub(crate) fn answer(&mut self, now: Time, slot: Slot, to: R, granted: Granted, answered: Answered) {
        let permit = self.permits.get(slot);
        let (id, lease) = (permit.id.clone(), self.resource.leases(&permit.bill).map(|(_, lease)| lease).min());
        let Granted { start, limited_by, class, .. } = granted;
        let delay = start.at.since(now);
        // A repeated answer does not prolong the permit.
        let validity = (start.at + self.resource.spec().validity).since(now + delay);
        let waited = if let Answered::AfterWaiting(waited) = answered { waited } else { Span::ZERO };
        let repeated = answered == Answered::Repeated;
        let charged = if delay > self.resource.spec().horizon {
            permit.bill.charged().map(|limit| permit.bill.bucket(limit)).collect()
        } else {
            Vec::new()
        };
        let grant = Grant { to, id, delay, validity, lease, limited_by, charged, class, waited, repeated };
        self.outbox.push_back(Command::Grant(grant));
    }

    /// Notes that answers arrive in time.
    pub(crate) fn delivered(&mut self) {
        if std::mem::take(&mut self.answers_are_late) {
            self.ledger.note_change();
        }
    }

    /// Notes that an answer about `id` has reached no client. A waiting request is dropped, and an
    /// open permit whose grant is lost is given back unused. After a lost update, the grant may have
    /// arrived. A client that was only cut off may ask again under the same id.
    pub(crate) fn undelivered(&mut self, now: Time, id: &PermitId, is_grant: bool) {
        let Some(slot) = self.permits.find(id) else { return };
        match self.permits.get(slot).state {
            State::Waiting(_) => {
                self.drop_waiting(slot);
                self.counters.returned += 1;
            }
            State::Granted(granted) if is_grant && granted.is_open() => self.give_back_undelivered(now, slot, granted),
            State::Granted(_) | State::Returned => {}
        }
    }
}
