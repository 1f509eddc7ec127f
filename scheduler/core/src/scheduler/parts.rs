//! Access to the parts of a scheduler.

use super::Scheduler;
use super::wait_estimator::WaitEstimator;
use crate::ids::LimitId;
use crate::ledger::usage_meter::Use;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::status::{Correction, Counters};
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// The learned corrections of cost estimates, by kind of call.
    #[must_use]
    pub fn corrections(&self) -> Vec<Correction> {
        self.cost_estimates.report()
    }

    /// Totals since the start of this scheduler. The driver counts refusals, as it refuses messages
    /// that the core does not see.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The capacity in force of a limit, if it is not that of the resource.
    #[must_use]
    pub fn capacity_in_force(&self, limit: LimitId) -> Option<Amount> {
        self.ledger.adaptive(limit).capacity_in_force()
    }

    /// The capacity that the upstream states for a limit, if that counts in place of the written
    /// one.
    #[must_use]
    pub fn stated_capacity(&self, limit: LimitId) -> Option<Amount> {
        self.ledger.adaptive(limit).stated().map(|stated| stated.capacity)
    }

    /// The limits, all or only `chosen`, for which calls wait because of a freeze or a spent quota.
    #[must_use]
    pub fn paused(&self, now: Time, chosen: Option<LimitId>) -> Vec<LimitId> {
        let all = self.resource.limits_by_id().map(|(limit, _)| limit);
        let chosen = all.filter(|limit| chosen.is_none_or(|chosen| chosen == *limit));
        chosen.filter(|limit| self.ledger.is_paused(now, *limit)).collect()
    }

    /// The number of remembered permits.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.permits.len()
    }

    /// The use since the last call, by client and class, and by limit.
    ///
    /// A call counts when it is granted. Its settle corrects that, so that a sum may be negative.
    pub fn take_use(&mut self) -> Use {
        self.meter.take()
    }

    /// Spends what was promised until `now`, so that the buckets can be read.
    pub(crate) fn advance(&mut self, now: Time) {
        self.pass_time(now);
        self.ledger.advance(now);
        self.recent.advance(now);
    }

    /// The requests that wait at `now`, and what they wait for.
    pub(crate) fn waits(&self, now: Time) -> WaitEstimator<'_, R> {
        let Scheduler { resource, ledger, permits, queues, term, answers_are_late, .. } = self;
        WaitEstimator { now, resource, ledger, permits, queues, term, answers_are_late: *answers_are_late }
    }
}
