//! The parts of a scheduler that views read, and of which records are made.

use super::Scheduler;
use super::key_labels::KeyLabels;
use crate::adaptation::{CostEstimates, RecentCalls};
use crate::discovery::LimitSearch;
use crate::fencing::Term;
use crate::ids::LimitId;
use crate::ledger::{Ledger, ShadowLimits, UseMeter};
use crate::permits::{PendingAnswers, Permits};
use crate::policy::Resource;
use crate::queue::{Queues, RecentService};
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::status::{Correction, Counters};
use rampmeter_protocol::time::Time;

/// What a successor goes on from: [records](crate::durability) are made of it and restored to it.
#[derive(Debug)]
pub(crate) struct RecordedParts<'a, R> {
    pub(crate) resource: &'a Resource,
    pub(crate) term: &'a mut Term,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) permits: &'a mut Permits<R>,
    pub(crate) cost_estimates: &'a mut CostEstimates,
    pub(crate) pending: &'a PendingAnswers<R>,
    pub(crate) queues: &'a Queues,
    pub(crate) search: Option<&'a LimitSearch>,
    pub(crate) meter: &'a mut UseMeter,
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

    /// The number of remembered permits.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.permits.len()
    }

    /// The labels of this limit's key that no request has carried yet.
    #[must_use]
    pub fn missing_labels(&self, limit: LimitId) -> &[String] {
        self.key_labels.missing_of(limit)
    }

    /// Notes the labels of a request. Returns the limits that have just skipped many requests,
    /// because no request carries the labels of their keys.
    #[must_use]
    pub fn note_labels(&mut self, labels: &Labels<'_>) -> Vec<LimitId> {
        self.key_labels.note(&self.resource, labels)
    }

    pub(crate) fn meter_mut(&mut self) -> &mut UseMeter {
        &mut self.meter
    }

    pub(crate) fn calls(&self) -> &RecentCalls {
        &self.calls
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn shadow_limits(&self) -> &ShadowLimits {
        &self.shadow_limits
    }

    pub(crate) fn permits(&self) -> &Permits<R> {
        &self.permits
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.queues
    }

    pub(crate) fn key_labels(&self) -> &KeyLabels {
        &self.key_labels
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

    /// What a successor goes on from.
    pub(crate) fn recorded_parts(&mut self) -> RecordedParts<'_, R> {
        RecordedParts {
            resource: &self.resource,
            term: &mut self.term,
            ledger: &mut self.ledger,
            permits: &mut self.permits,
            cost_estimates: &mut self.cost_estimates,
            pending: &self.pending,
            queues: &self.queues,
            search: self.search.as_deref(),
            meter: &mut self.meter,
        }
    }
}
