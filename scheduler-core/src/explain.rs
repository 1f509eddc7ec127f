//! Answers to "why am I waiting?".

use crate::ledger::Backlog;
use crate::line::Line;
use crate::permits::{Permit, State};
use crate::refusal::Refusal;
use crate::resource::{ClassId, LimitId};
use crate::scheduler::Scheduler;
use crate::slab::Slot;
use rampmeter_protocol::explain::{self, Explained, Explanation};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
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
        let request = match id {
            Some(id) => Some(self.explain_one(now, self.permits.find(id).ok_or(Refusal::UnknownPermit)?)),
            None => None,
        };
        let waiting = request.as_ref().map_or(self.waiting() as u64, |request| request.position);
        let named = MOST_NAMED.min(usize::try_from(waiting).unwrap_or(usize::MAX));
        let first = self.first_in_line(now, named);
        Ok(Explanation { resource: self.resource.name().clone(), epoch: self.epoch, limits, request, waiting, first })
    }

    fn explain_one(&self, now: Time, slot: Slot) -> Explained {
        let permit = self.permits.get(slot);
        match &permit.state {
            State::Waiting(_) => {
                let (position, offer) = self.outlook(now, slot);
                self.explain_waiting(now, permit, position, offer.at, offer.limited_by)
            }
            State::Granted(granted) => {
                let eta_ms = granted.key.at.since(now).millis() - now.since(granted.key.at).millis();
                let limited_by = self.limit_name(granted.limited_by);
                Explained { limited_by, eta_ms, ..self.known(permit, explain::State::Granted, granted.class) }
            }
            State::Returned => self.known(permit, explain::State::Returned, self.resource.default_class()),
        }
    }

    /// The first of those who wait, class by class.
    fn first_in_line(&self, now: Time, count: usize) -> Vec<Explained> {
        let mut backlog = Backlog::none(&self.resource);
        let first = self.lines.iter().flat_map(Line::iter).take(count).enumerate();
        let explain = |(position, slot): (usize, Slot)| {
            let permit = self.permits.get(slot);
            let offer = self.expected(now, permit, &backlog);
            backlog.add(&self.resource, &permit.bill);
            self.explain_waiting(now, permit, position as u64, offer.at, offer.limited_by)
        };
        first.map(explain).collect()
    }

    fn explain_waiting(
        &self,
        now: Time,
        permit: &Permit<R>,
        position: u64,
        at: Time,
        limit: Option<LimitId>,
    ) -> Explained {
        let waiting = permit.waiting();
        let client = self.resource.fair_share().map(|_| waiting.client.to_string());
        Explained {
            client: client.filter(|client| !client.is_empty()),
            limited_by: self.limit_name(limit),
            position,
            waited_ms: now.since(waiting.place.arrived).millis(),
            eta_ms: at.since(now).millis(),
            ..self.known(permit, explain::State::Waiting, waiting.class)
        }
    }

    /// What is known of any permit.
    fn known(&self, permit: &Permit<R>, state: explain::State, class: ClassId) -> Explained {
        let limits = self.resource.limits();
        let takes = permit.bill.iter().map(|(limit, amount)| (limits[limit.index()].name().clone(), amount.units()));
        Explained {
            id: permit.id.clone(),
            state,
            class: self.resource.classes()[class.index()].name.clone(),
            client: None,
            takes: takes.collect(),
            limited_by: None,
            position: 0,
            waited_ms: Span::ZERO.millis(),
            eta_ms: Span::ZERO.millis(),
        }
    }

    fn limit_name(&self, limit: Option<LimitId>) -> Option<Name> {
        limit.map(|limit| self.resource.limits()[limit.index()].name().clone())
    }
}
