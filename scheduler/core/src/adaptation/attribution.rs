//! Which limits a response of the upstream is about.

use rampmeter_policy::ids::LimitId;
use rampmeter_policy::observation::{Reading, Scope};
use rampmeter_policy::spec::Applies;
use rampmeter_policy::{Bill, Limit, Resource};
use rampmeter_protocol::amount::Amount;
use smallvec::SmallVec;

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

    /// Returns the limits that may have rejected the call. A cap on calls in flight is one of them
    /// only if it is named, or if the resource has nothing but caps. A steered limit is one only
    /// for a scope that names it or nothing.
    pub(crate) fn suspects(self, scope: &Scope) -> Limits {
        let is_named = self.knows(scope);
        let has_others = self.resource.limits().iter().any(|limit| !limit.counts_calls_in_flight());
        let mut suspects = self.limits_in(scope);
        if suspects.is_empty() && !is_named && (scope.is_global() || matches!(scope, Scope::Unit(_))) {
            suspects = self.limits_in(&Scope::Unnamed);
        }
        suspects.retain(|limit| {
            let limit = &self.resource[*limit];
            let is_cap = has_others && limit.counts_calls_in_flight();
            is_named || !is_cap && (scope.may_be_unnamed() || !limit.spec().is_steered())
        });
        suspects
    }

    /// Returns those of `suspects` that no other one is narrower than.
    pub(crate) fn narrowest(self, suspects: &Limits) -> Limits {
        let applies = |limit: &LimitId| &self.resource[*limit].spec().applies;
        let is_wider = |limit: &LimitId| suspects.iter().any(|other| applies(other).is_narrower_than(applies(limit)));
        suspects.iter().copied().filter(|limit| !is_wider(limit)).collect()
    }

    /// Returns the suspects that the upstream declares spent, and whether they are quotas. If none
    /// is a quota, those with long periods count, or else the `blamed` ones.
    pub(crate) fn exhausted(self, scope: &Scope, blamed: Limits) -> (Limits, bool) {
        let suspects = self.suspects(scope);
        let of = |is: fn(&Limit) -> bool| -> Limits {
            suspects.iter().copied().filter(|limit| is(&self.resource[*limit])).collect()
        };
        let (quotas, long) = (of(Limit::is_quota), of(Limit::has_long_period));
        match (quotas.is_empty(), long.is_empty()) {
            (false, _) => (quotas, true),
            (true, false) => (long, false),
            (true, true) => (blamed, false),
        }
    }

    /// Returns the limit that `reading`, one of a response's `readings`, is certainly about. Among
    /// several limits, an equal capacity decides; otherwise the rank of the capacity does, if the
    /// response has one reading for each of them.
    pub(crate) fn limit_read(self, reading: &Reading, readings: &[Reading]) -> Option<LimitId> {
        let mut limits = self.limits_in(&reading.scope);
        let is_unknown = matches!(reading.scope, Scope::Limit(_)) && !self.knows(&reading.scope);
        limits.retain(|limit| {
            let limit = &self.resource[*limit];
            let fits = !is_unknown || Some(limit.spec().capacity) == reading.capacity;
            fits && !limit.counts_calls_in_flight() && !limit.spec().is_steered()
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

    /// Returns the charged limits that `scope` means.
    fn limits_in(self, scope: &Scope) -> Limits {
        let charged = |means: &dyn Fn(LimitId) -> bool| self.bill.charged().filter(|limit| means(*limit)).collect();
        let is_narrow = |limit: LimitId| self.resource[limit].spec().applies.is_narrower_than(&Applies::default());
        match scope {
            Scope::Unnamed => charged(&|_| true),
            Scope::Unit(unit) => charged(&|limit| *self.resource[limit].spec().unit == **unit),
            Scope::Narrow => charged(&is_narrow),
            Scope::Limit(name) | Scope::Policy(name) => match (self.resource.limit_called(name, self.bill), scope) {
                (Some(named), _) => charged(&|limit| limit == named),
                (None, Scope::Limit(_)) if scope.is_global() => charged(&|limit| !is_narrow(limit)),
                (None, Scope::Limit(_)) => charged(&is_narrow),
                (None, _) => charged(&|_| true),
            },
        }
    }

    fn knows(self, scope: &Scope) -> bool {
        match scope {
            Scope::Unnamed | Scope::Narrow | Scope::Unit(_) => false,
            Scope::Limit(name) | Scope::Policy(name) => self.resource.limit_called(name, self.bill).is_some(),
        }
    }
}
