//! Answers to "why am I waiting?".

use crate::bill::Bill;
use crate::bucket::Bucket;
use crate::ledger::{Backlog, Offer};
use crate::limit::Limit;
use crate::line::Line;
use crate::permits::{Permit, State};
use crate::refusal::Refusal;
use crate::resource::{ClassId, LimitId};
use crate::scheduler::Scheduler;
use crate::slab::Slot;
use rampmeter_protocol::explain::{self, Explained, Explanation, Holder};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};

/// How many of those ahead are named; people read no more.
const MOST_NAMED: usize = 10;

impl<R: Clone> Scheduler<R> {
    /// Why the request `id` waits, or why anybody does.
    ///
    /// # Errors
    /// [`Refusal::UnknownPermit`] for an id that nobody knows.
    pub fn explain(&mut self, now: Time, id: Option<&PermitId>) -> Result<Explanation, Refusal> {
        let limits = self.limit_status(now);
        let slot = id.map(|id| self.permits.find(id).ok_or(Refusal::UnknownPermit)).transpose()?;
        let request = slot.map(|slot| self.explain_one(now, slot));
        let waiting = request.as_ref().map_or(self.waiting() as u64, |request| request.position);
        let named = MOST_NAMED.min(usize::try_from(waiting).unwrap_or(usize::MAX));
        let first = match slot {
            Some(slot) => self.ahead_of(now, slot, named),
            None => self.first_of_all(now, named),
        };
        Ok(Explanation { resource: self.resource.name().clone(), epoch: self.epoch, limits, request, waiting, first })
    }

    fn explain_one(&self, now: Time, slot: Slot) -> Explained {
        let permit = self.permits.get(slot);
        match &permit.state {
            State::Waiting(_) => {
                let (position, offer) = self.outlook(now, slot);
                self.explain_waiting(now, permit, position, offer)
            }
            State::Granted(granted) => {
                let eta_ms = granted.key.at.since(now).millis() - now.since(granted.key.at).millis();
                let limited_by = granted.limited_by;
                Explained { eta_ms, ..self.known(now, permit, explain::State::Granted, granted.class, limited_by) }
            }
            State::Returned => self.known(now, permit, explain::State::Returned, self.resource.default_class(), None),
        }
    }

    /// The first of those whose turn comes before that of one who waits: in the line of its class, or where it stands aside.
    fn ahead_of(&self, now: Time, slot: Slot, count: usize) -> Vec<Explained> {
        match self.permits.get(slot).as_waiting().and_then(|waiting| self.gate_of(waiting)) {
            Some((_, gate)) => gate.iter().take(count).map(|slot| self.explain_one(now, slot)).collect(),
            None => self.first_in_line(now, count),
        }
    }

    /// The first in line, and then the first of those who stand aside.
    fn first_of_all(&self, now: Time, count: usize) -> Vec<Explained> {
        let mut first = self.first_in_line(now, count);
        let aside = self.lines.iter().flat_map(Line::aside).take(count - first.len());
        first.extend(aside.map(|slot| self.explain_one(now, slot)));
        first
    }

    /// The first of those in line, class by class.
    fn first_in_line(&self, now: Time, count: usize) -> Vec<Explained> {
        let mut backlog = Backlog::none(&self.resource);
        let first = self.lines.iter().flat_map(|line| line.order().front(count)).take(count).enumerate();
        let explain = |(position, (slot, _)): (usize, (Slot, &Bill))| {
            let permit = self.permits.get(slot);
            let offer = self.expected(now, permit, &backlog);
            backlog.add(&self.resource, &permit.bill);
            self.explain_waiting(now, permit, position as u64, offer)
        };
        first.map(explain).collect()
    }

    fn explain_waiting(&self, now: Time, permit: &Permit<R>, position: u64, offer: Offer) -> Explained {
        let waiting = permit.waiting();
        let client = self.resource.fair_share().map(|_| waiting.client.to_string());
        Explained {
            client: client.filter(|client| !client.is_empty()),
            position,
            waited_ms: now.since(waiting.place.arrived).millis(),
            eta_ms: offer.at.since(now).millis(),
            ..self.known(now, permit, explain::State::Waiting, waiting.class, offer.limited_by)
        }
    }

    /// What is known of any permit, and of the bucket that holds it.
    fn known(
        &self,
        now: Time,
        permit: &Permit<R>,
        state: explain::State,
        class: ClassId,
        limited_by: Option<LimitId>,
    ) -> Explained {
        let name = |limit: LimitId| self.resource.limits()[limit.index()].name().clone();
        let shared = permit.bill.iter();
        let takes = shared.chain(permit.bill.keyed().map(|charge| (charge.limit, charge.amount)));
        Explained {
            id: permit.id.clone(),
            state,
            class: self.resource.classes()[class.index()].name.clone(),
            client: None,
            takes: takes.map(|(limit, amount)| (name(limit), amount.units())).collect(),
            limited_by: limited_by.map(name),
            held_by: limited_by.and_then(|limit| self.holder(now, &permit.bill, limit)),
            position: 0,
            waited_ms: Span::ZERO.millis(),
            eta_ms: Span::ZERO.millis(),
        }
    }

    /// How the bucket of this limit is doing that is charged.
    fn holder(&self, now: Time, bill: &Bill, limit: LimitId) -> Option<Holder> {
        let key = bill.key_of(limit).map(|charge| charge.key.to_string());
        let tell = |bucket: &Bucket, limit: &Limit| Holder {
            key: key.clone(),
            level: limit.rate().units(bucket.level(limit, now)),
            next_free_ms: bucket.next_free(limit, now).since(now).millis(),
        };
        self.ledger.survey(now, &bill.of_limit(limit), tell).next()
    }
}
