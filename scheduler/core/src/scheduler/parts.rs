//! Access to the parts of a scheduler: to single ones, and to those that the same steps need.

use super::Scheduler;
use super::charges::Charges;
use super::feedback::Feedback;
use super::wait_estimator::WaitEstimator;
use crate::adaptation::RecentCalls;
use crate::fencing::Term;
use crate::ids::LimitId;
use crate::ledger::usage_meter::Use;
use crate::ledger::{Ledger, ShadowLimits, UsageMeter};
use crate::permits::{PendingAnswers, Permits};
use crate::policy::Resource;
use crate::queue::{Queues, RecentService};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::status::{Correction, Counters};
use rampmeter_protocol::time::Time;

/// The parts from which [records](crate::durability) are made, and to which a successor restores
/// them.
#[derive(Debug)]
pub(crate) struct RecordedParts<'a, R> {
    pub(crate) resource: &'a Resource,
    pub(crate) term: &'a mut Term,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) permits: &'a mut Permits<R>,
    pub(crate) pending: &'a PendingAnswers<R>,
    pub(crate) queues: &'a Queues,
    pub(crate) meter: &'a mut UsageMeter,
}

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

    pub(crate) fn calls(&self) -> &RecentCalls {
        &self.calls
    }

    pub(crate) fn shadow_limits(&self) -> &ShadowLimits {
        &self.shadow_limits
    }

    pub(crate) fn recent(&self) -> &RecentService {
        &self.recent
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

    /// The parts that count starts.
    pub(super) fn charges(&mut self, now: Time) -> Charges<'_> {
        let Scheduler { resource, ledger, shadow_limits, term, calls, meter, .. } = self;
        Charges { now, resource, ledger, shadow_limits, term, calls, meter }
    }

    /// The parts that learn from the upstream.
    pub(super) fn feedback(&mut self) -> Feedback<'_, R> {
        let Scheduler { resource, ledger, term, outbox, counters, .. } = self;
        Feedback { resource, ledger, term, outbox, counters }
    }

    /// The parts that records are made from.
    pub(crate) fn recorded_parts(&mut self) -> RecordedParts<'_, R> {
        let Scheduler { resource, term, ledger, permits, pending, queues, meter, .. } = self;
        RecordedParts { resource, term, ledger, permits, pending, queues, meter }
    }
}
