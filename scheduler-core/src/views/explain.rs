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

/// The largest number of requests to list; people read no more.
const MAX_LISTED: usize = 10;

impl<R: Clone> Scheduler<R> {
    /// Explains why the request `id` waits, or what holds the whole resource.
    ///
    /// # Errors
    /// [`Refusal::UnknownPermit`] for an unknown id.
    pub fn explain(&mut self, now: Time, id: Option<&PermitId>) -> Result<Explanation, Refusal> {
        let limits = self.limit_status(now);
        let slot = id.map(|id| self.permits.find(id).ok_or(Refusal::UnknownPermit)).transpose()?;
        let request = slot.map(|slot| self.explain_one(now, slot));
        let waiting = request.as_ref().map_or(self.waiting() as u64, |request| request.position);
        let listed = MAX_LISTED.min(usize::try_from(waiting).unwrap_or(usize::MAX));
        let first = self.first_waiting(slot, listed).into_iter().map(|slot| self.explain_one(now, slot)).collect();
        Ok(Explanation { resource: self.resource.name().clone(), epoch: self.epoch, limits, request, waiting, first })
    }

    fn explain_one(&self, now: Time, slot: Slot) -> Explained {
        let permit = self.permits.get(slot);
        match &permit.state {
            State::Waiting(waiting) => {
                let (position, offer) = self.outlook(now, slot);
                let is_named = self.resource.spec().fair_share.is_some() && !waiting.client.is_empty();
                Explained {
                    client: is_named.then(|| waiting.client.to_string()),
                    position,
                    waited_ms: now.since(waiting.arrival.at).millis(),
                    eta_ms: offer.at.since(now).millis(),
                    ..self.describe(now, permit, explain::State::Waiting, waiting.class, offer.limited_by)
                }
            }
            State::Granted(granted) => {
                let eta_ms = granted.key.at.since(now).millis() - now.since(granted.key.at).millis();
                let limited_by = granted.limited_by;
                Explained { eta_ms, ..self.describe(now, permit, explain::State::Granted, granted.class, limited_by) }
            }
            State::Returned => {
                self.describe(now, permit, explain::State::Returned, self.resource.default_class(), None)
            }
        }
    }

    /// The first requests in the key queue of `slot`, or in all class queues and then in key
    /// queues.
    fn first_waiting(&self, slot: Option<Slot>, count: usize) -> Vec<Slot> {
        let waiting = slot.and_then(|slot| self.permits.get(slot).as_waiting());
        if let Some((_, key_queue)) = waiting.and_then(|waiting| self.key_queue_of(waiting)) {
            return key_queue.iter().take(count).collect();
        }
        let in_queues = self.queues.classes().iter().flat_map(|queue| queue.order().front(count)).map(|(slot, _)| slot);
        in_queues.chain(self.queues.classes().iter().flat_map(ClassQueue::waiting_for_keys)).take(count).collect()
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
        let resource = permit.as_waiting().map_or(&self.resource, |waiting| self.limits_of(waiting));
        let name = |limit: LimitId| resource[limit].spec().name.clone();
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

    /// The state of the bucket in which `bill` is charged to `limit`.
    fn holder(&self, now: Time, bill: &Bill, limit: LimitId) -> Option<Holder> {
        let key = bill.key_charge(limit).map(|charge| charge.key.to_string());
        let describe = |bucket: &Bucket, limit: &Limit| Holder {
            key: key.clone(),
            level: limit.rate().units(bucket.level(limit, now)),
            next_free_ms: bucket.next_free(limit, now).since(now).millis(),
        };
        self.ledger.read_each(now, &bill.only(limit), describe).next()
    }
}
