//! Status and explanations for people. A view spends the promises that are past, and changes
//! nothing else.

mod explain;
mod reasons;
pub mod report;
mod shares;
mod useful_workers;

use crate::arithmetic::Credit;
use crate::ids::LimitId;
pub use crate::ledger::usage_meter::{ClientUse, OTHERS, Use};
use crate::refusal::Refusal;
use crate::scheduler::Scheduler;
use rampmeter_protocol::explain::{Explanation, Question};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::left::Left;
use rampmeter_protocol::reason::{Holder, Reason};
use rampmeter_protocol::shares::Shares;
use rampmeter_protocol::status::{ClassStatus, LimitStatus};
use rampmeter_protocol::time::Time;
use reasons::{Obstacle, holder, obstacle, obstacle_in};

impl<R: Clone> Scheduler<R> {
    /// The status of all limits at `now`.
    #[must_use]
    pub fn limit_status(&mut self, now: Time) -> Vec<LimitStatus> {
        self.advance(now);
        let mut limits = report::limit_statuses(self.resource(), self.waits(now).ledger, now);
        limits.extend(report::shadow_statuses(&self.shadow_limits, now));
        limits
    }

    /// The status of all classes at `now`, the most urgent first.
    #[must_use]
    pub fn class_status(&self, now: Time) -> Vec<ClassStatus> {
        report::class_statuses(&self.waits(now))
    }

    /// The remaining amount at `now` in each limit that the permit `id` is charged to, keyed limits
    /// last. Empty for an unknown permit. Another request may take the amount at any time. `now`
    /// must not be before the last event.
    #[must_use]
    pub fn left(&mut self, now: Time, id: &PermitId) -> Vec<Left<'static>> {
        self.advance(now);
        let waits = self.waits(now);
        let Some(slot) = waits.permits.find(id) else { return Vec::new() };
        let permit = waits.permits.get(slot);
        waits.ledger.read_each(now, &permit.bill, |bucket, limit| report::left(bucket, limit, now)).collect()
    }

    /// The limit that delays or refuses one more request of the default class, if any, with the
    /// reason and the state of its bucket.
    #[must_use]
    pub fn delay_of_next(&self, now: Time) -> Option<(LimitId, Reason, Option<Holder>)> {
        let waits = self.waits(now);
        let class = waits.resource.default_class();
        let tier = waits.resource.tier(class);
        let bill = waits.resource.bill(&Labels::new(), [].into_iter()).ok()?;
        let limit = match self.spent_quota(now, &bill) {
            Some(Refusal::QuotaSpent { limit, .. }) => limit,
            Some(_) | None => {
                let behind = waits.queues.backlog_through(waits.resource, class);
                waits.ledger.paid_after(now, &behind, |_| Credit::ZERO, &bill, tier).limited_by?
            }
        };
        let reason = obstacle_in(&waits, &bill, limit, tier).unwrap_or(Reason::Turn);
        Some((limit, reason, holder(&waits, &bill, limit, tier)))
    }

    /// For a waiting request: how many requests are ahead of it, the limit that holds it, and why.
    #[must_use]
    pub fn held_by(&self, now: Time, id: &PermitId) -> Option<(u64, Option<LimitId>, Reason)> {
        let waits = self.waits(now);
        let slot = waits.permits.find(id)?;
        let permit = waits.permits.get(slot);
        permit.as_waiting()?;
        let (position, offer) = waits.outlook(slot);
        let Obstacle { limit, reason } = obstacle(&waits, permit, position, offer);
        Some((position, limit, reason))
    }

    /// Explains why the request of the question waits, or what holds the whole resource.
    ///
    /// # Errors
    /// [`Refusal::UnknownPermit`] for an unknown id.
    pub fn explain(&mut self, now: Time, question: &Question) -> Result<Explanation, Refusal> {
        let limits = self.limit_status(now);
        explain::explain(&self.waits(now), limits, question)
    }

    /// The grants to classes and clients in the last minutes under this leader.
    #[must_use]
    pub fn shares(&mut self, now: Time) -> Shares {
        self.advance(now);
        shares::shares(self.resource(), self.waits(now).queues, &self.recent, now)
    }

    /// How many calls have started by `now` and were not settled. An unsettled call counts until
    /// its permit is forgotten.
    #[must_use]
    pub fn calls_in_flight(&self, now: Time) -> u64 {
        self.calls.in_flight().count(now)
    }

    /// How many workers with one call at a time exhaust the scarcest limit, by Little's law. This
    /// is the calls a second that the limit allows at `now`, times the mean time from start to
    /// settle. Calls cost as much as the latest ones have cost on average.
    ///
    /// None before a settled call was charged to a limit without keys. Limits with keys do not
    /// count, because the number of keys has no bound. A quota counts only while it is spent: it
    /// bounds no calls a second.
    #[must_use]
    pub fn useful_workers(&self, now: Time) -> Option<f64> {
        useful_workers::useful_workers(self.resource(), self.waits(now).ledger, &self.calls, now)
    }
}
