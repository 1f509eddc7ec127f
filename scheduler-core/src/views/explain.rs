//! Answers to "why am I waiting?".

use crate::collections::Slot;
use crate::ids::{ClassId, LimitId};
use crate::limits::Bucket;
use crate::policy::{Bill, Limit};
use crate::queue::ClassQueue;
use crate::refusal::Refusal;
use crate::scheduler::Scheduler;
use crate::scheduler::permits::{Permit, State};
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
        let first = self.first(slot, named).into_iter().map(|slot| self.explain_one(now, slot)).collect();
        Ok(Explanation { resource: self.resource.name().clone(), epoch: self.epoch, limits, request, waiting, first })
    }

    fn explain_one(&self, now: Time, slot: Slot) -> Explained {
        let permit = self.permits.get(slot);
        match &permit.state {
            State::Waiting(waiting) => {
                let (position, offer) = self.outlook(now, slot);
                let client = self.resource.spec().fair_share.as_ref().map(|_| waiting.client.to_string());
                Explained {
                    client: client.filter(|client| !client.is_empty()),
                    position,
                    waited_ms: now.since(waiting.arrival.at).millis(),
                    eta_ms: offer.at.since(now).millis(),
                    ..self.known(now, permit, explain::State::Waiting, waiting.class, offer.limited_by)
                }
            }
            State::Granted(granted) => {
                let eta_ms = granted.key.at.since(now).millis() - now.since(granted.key.at).millis();
                let limited_by = granted.limited_by;
                Explained { eta_ms, ..self.known(now, permit, explain::State::Granted, granted.class, limited_by) }
            }
            State::Returned => self.known(now, permit, explain::State::Returned, self.resource.default_class(), None),
        }
    }

    /// Of those at the gate where a request stands the first, or else of those in line, class by class, and behind them at gates.
    fn first(&self, slot: Option<Slot>, count: usize) -> Vec<Slot> {
        let waiting = slot.and_then(|slot| self.permits.get(slot).as_waiting());
        if let Some((_, key_queue)) = waiting.and_then(|waiting| self.key_queue_of(waiting)) {
            return key_queue.iter().take(count).collect();
        }
        let in_line = self.queues.classes().iter().flat_map(|queue| queue.order().front(count)).map(|(slot, _)| slot);
        in_line.chain(self.queues.classes().iter().flat_map(ClassQueue::waiting_for_keys)).take(count).collect()
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
        let name = |limit: LimitId| self.resource.limits()[limit.index()].spec().name.clone();
        Explained {
            id: permit.id.clone(),
            state,
            class: self.resource.classes()[class.index()].name.clone(),
            client: None,
            takes: permit.bill.amounts().map(|(limit, amount)| (name(limit), amount.units())).collect(),
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
        self.ledger.read_each(now, &bill.of_limit(limit), tell).next()
    }
}
