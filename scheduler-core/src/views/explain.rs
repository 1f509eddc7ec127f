//! Answers to "why am I waiting?".

use super::listing::RequestPage;
use super::reasons::Obstacle;
use crate::collections::Slot;
use crate::ids::{ClassId, LimitId};
use crate::permits::{Permit, State};
use crate::refusal::Refusal;
use crate::scheduler::Scheduler;
use rampmeter_protocol::explain::{self, Explained, Explanation, Question};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::reason::Reason;
use rampmeter_protocol::time::{Span, Time};

impl<R: Clone> Scheduler<R> {
    /// Explains why the request of the question waits, or what holds the whole resource.
    ///
    /// # Errors
    /// [`Refusal::UnknownPermit`] for an unknown id.
    pub fn explain(&mut self, now: Time, question: &Question) -> Result<Explanation, Refusal> {
        let limits = self.limit_status(now);
        let find = |id: &PermitId| self.permits().find(id).ok_or(Refusal::UnknownPermit);
        let slot = question.id.as_ref().map(find).transpose()?;
        let after = question.after.as_ref().map(find).transpose()?;
        let request = slot.map(|slot| self.explain_one(now, slot));
        let waiting = request.as_ref().map_or(self.waiting() as u64, |request| request.position);
        let RequestPage { slots, more } =
            slot.map_or_else(|| self.page_after(after), |slot| self.page_ahead_of(slot, waiting));
        let first = slots.into_iter().map(|slot| self.explain_one(now, slot)).collect();
        let (resource, epoch) = (self.resource().name().clone(), self.epoch());
        Ok(Explanation { resource, epoch, limits, request, waiting, first, more })
    }

    /// What holds the request `id` if it waits: how many are ahead of it, the limit, and why.
    #[must_use]
    pub fn held_by(&self, now: Time, id: &PermitId) -> Option<(u64, Option<LimitId>, Reason)> {
        let slot = self.permits().find(id)?;
        let permit = self.permits().get(slot);
        permit.as_waiting()?;
        let (position, offer) = self.outlook(now, slot);
        let Obstacle { limit, reason } = self.obstacle(now, permit, position, offer);
        Some((position, limit, reason))
    }

    fn explain_one(&self, now: Time, slot: Slot) -> Explained {
        let permit = self.permits().get(slot);
        match &permit.state {
            State::Waiting(_) => self.explain_waiting(now, slot),
            State::Granted(granted) => {
                let eta_ms = granted.start.at.since(now).millis() - now.since(granted.start.at).millis();
                let limited_by = granted.limited_by;
                Explained { eta_ms, ..self.describe(now, permit, explain::State::Granted, granted.class, limited_by) }
            }
            State::Returned => {
                self.describe(now, permit, explain::State::Returned, self.resource().default_class(), None)
            }
        }
    }

    fn explain_waiting(&self, now: Time, slot: Slot) -> Explained {
        let permit = self.permits().get(slot);
        let waiting = permit.waiting();
        let (position, offer) = self.outlook(now, slot);
        let Obstacle { limit, reason } = self.obstacle(now, permit, position, offer);
        let is_named = self.resource().spec().fair_share.is_some() && !waiting.client.is_empty();
        // Leases tell only when a place is free at the latest.
        let in_flight = limit.filter(|_| matches!(reason, Reason::InFlight | Reason::Headroom | Reason::Share));
        let likely = in_flight.and_then(|limit| self.likely_wait(now, &permit.bill, limit, position));
        let wait = offer.at.since(now);
        Explained {
            client: is_named.then(|| waiting.client.to_string()),
            reason: Some(reason),
            position,
            waited_ms: now.since(waiting.arrival.at).millis(),
            eta_ms: likely.map_or(wait, |likely| likely.min(wait)).millis(),
            ..self.describe(now, permit, explain::State::Waiting, waiting.class, limit)
        }
    }

    /// The description of any permit, and of the bucket that limits it.
    fn describe(
        &self,
        now: Time,
        permit: &Permit<R>,
        state: explain::State,
        class: ClassId,
        limited_by: Option<LimitId>,
    ) -> Explained {
        let resource = permit.as_waiting().map_or(self.resource(), |waiting| self.limits_of(waiting));
        let name = |limit: LimitId| resource[limit].spec().name.clone();
        let tier = self.resource().tier(class);
        Explained {
            id: permit.id.clone(),
            state,
            class: self.resource().classes()[class.index()].name.clone(),
            client: None,
            takes: permit.bill.amounts().map(|(limit, amount)| (name(limit), amount.units())).collect(),
            limited_by: limited_by.map(name),
            reason: None,
            held_by: limited_by.and_then(|limit| self.holder(now, &permit.bill, limit, tier)),
            position: 0,
            waited_ms: Span::ZERO.millis(),
            eta_ms: Span::ZERO.millis(),
        }
    }
}
