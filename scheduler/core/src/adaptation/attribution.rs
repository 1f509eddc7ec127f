//! Which limits a response of the upstream is about.

use super::observation::{Reading, Scope};
use crate::ids::LimitId;
use crate::policy::{Bill, Limit, Resource};
use rampmeter_protocol::amount::Amount;
use smallvec::SmallVec;

/// A response that states less than one part in this many of a capacity is about another limit.
const MIN_PART: u64 = 10;

/// A few limits that one call is charged to.
pub(crate) type Limits = SmallVec<[LimitId; 3]>;

/// Attributes a call's response to limits. A response is about limits of its call's bill only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribution<'a> {
    resource: &'a Resource,
    bill: &'a Bill,
}

impl<'a> Attribution<'a> {
    pub(crate) fn new(resource: &'a Resource, bill: &'a Bill) -> Self {
        Attribution { resource, bill }
    }

    /// The limits that may have rejected the call. If `scope` means no charged limit, all charged
    /// limits may.
    pub(crate) fn blamed(self, scope: &Scope) -> Limits {
        let mut meant = self.limits_in(scope);
        if meant.is_empty() {
            meant.extend(self.bill.charged());
            // A steered limit has no name at the upstream: a response that names a limit does not
            // blame it.
            meant.retain(|limit| scope.may_be_unnamed() || !self.resource[*limit].spec().is_steered());
        }
        meant
    }

    /// The limits that the upstream declares spent, and whether they are quotas. If no blamed limit
    /// is a quota, those with long periods count, or else all blamed limits.
    pub(crate) fn exhausted(self, scope: &Scope) -> (Limits, bool) {
        let blamed = self.blamed(scope);
        let of = |is: fn(&Limit) -> bool| -> Limits {
            blamed.iter().copied().filter(|limit| is(&self.resource[*limit])).collect()
        };
        let (quotas, long) = (of(Limit::is_quota), of(Limit::has_long_period));
        match (quotas.is_empty(), long.is_empty()) {
            (false, _) => (quotas, true),
            (true, false) => (long, false),
            (true, true) => (blamed, false),
        }
    }

    /// The limit that `reading`, one of a response's `readings`, is about, if that is certain.
    /// Among several limits, an equal capacity decides. Otherwise the rank of the capacity decides,
    /// if the response has one reading for each of these limits.
    pub(crate) fn limit_read(self, reading: &Reading, readings: &[Reading]) -> Option<LimitId> {
        let mut limits = self.limits_in(&reading.scope);
        limits.retain(|limit| {
            let limit = &self.resource[*limit];
            !limit.counts_calls_in_flight() && !limit.spec().is_steered()
        });
        let alone = |limits: &Limits| if let [limit] = limits[..] { Some(limit) } else { None };
        let capacity = |limit: LimitId| self.resource[limit].spec().capacity;
        if limits.len() < 2 {
            return alone(&limits);
        }
        if limits.iter().any(|limit| Some(capacity(*limit)) == reading.capacity) {
            limits.retain(|limit| Some(capacity(*limit)) == reading.capacity);
            return alone(&limits);
        }
        let beside = readings.iter().filter(|other| self.limits_in(&other.scope) == limits);
        let capacities: Vec<Option<Amount>> = beside.map(|other| other.capacity).collect();
        let rank = capacities.iter().filter(|capacity| **capacity < reading.capacity).count();
        let is_one_of_each = capacities.len() == limits.len()
            && capacities.iter().filter(|capacity| **capacity == reading.capacity).count() == 1;
        limits.sort_by_key(|limit| capacity(*limit));
        reading.capacity.filter(|_| is_one_of_each).map(|_| limits[rank])
    }

    /// The charged limits that `scope` means. An unknown name means all of them.
    fn limits_in(self, scope: &Scope) -> Limits {
        let charged = |means: &dyn Fn(LimitId) -> bool| self.bill.charged().filter(|limit| means(*limit)).collect();
        match scope {
            Scope::Unnamed => charged(&|_| true),
            Scope::Unit(unit) => charged(&|limit| *self.resource[limit].spec().unit == **unit),
            Scope::Limit(name) => match self.resource.limit(name) {
                Some(named) => charged(&|limit| limit == named),
                None => charged(&|_| true),
            },
        }
    }
}

/// Whether a reading may be of this limit, by its reset and its capacity. Only then may the reading
/// change windows and capacity.
pub(crate) fn may_be_of(limit: &Limit, reading: &Reading) -> bool {
    let fits = reading.reset.is_none_or(|reset| reset <= limit.spec().period + reading.reset_grain);
    let least = limit.spec().capacity.micros() / MIN_PART;
    fits && reading.capacity.is_none_or(|capacity| capacity.micros() >= least)
}
