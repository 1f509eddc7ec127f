//! A validated resource: its limits and classes.

use super::accounts::in_force;
use super::applies::{LimitMatcher, joined_key};
use super::bill::{Bill, CallTraits, LimitSet};
use super::checks::faults;
use super::limit::{Limit, parts_per_million};
use super::spec::{
    ClassSpec, DEFAULT_AHEAD, Discover, LimitSpec, ResourceSpec, SpecError, StartPolicy, Uncounted, Unmatched, Weight,
};
use crate::arithmetic::Credit;
use crate::ids::{ClassId, LimitId, Tier};
use crate::refusal::Refusal;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;
use std::collections::BTreeSet;
use std::ops::Index;
use std::sync::Arc;

/// A validated class.
#[derive(Clone, Debug)]
pub struct Class {
    /// The name by which requests choose it.
    pub name: Name,
    /// The longest wait of its oldest request before that request is promoted.
    pub max_starvation: Option<Span>,
    /// The headroom that its starts leave.
    pub tier: Tier,
}

impl Class {
    fn new(spec: &ClassSpec, headrooms: &[u32]) -> Self {
        let headroom = parts_per_million(spec.headroom);
        let tier = headrooms.iter().position(|known| *known == headroom).expect("every headroom has a tier");
        Class { name: spec.name.clone(), max_starvation: spec.max_starvation, tier: Tier::of_index(tier) }
    }

    /// Returns when the oldest request for something is promoted, ahead of all others: once in each `max_starvation`.
    /// `came` is when this scheduler received it, and `served` when the class last got what it waits for.
    #[must_use]
    pub fn promotes_at(&self, came: Time, served: Time) -> Option<Time> {
        self.max_starvation.map(|most| came.max(served) + most)
    }
}

/// An upstream with its limits and classes; always valid.
#[derive(Clone, Debug)]
pub struct Resource {
    spec: Arc<ResourceSpec>,
    limits: Arc<[Limit]>,
    classes: Vec<Class>,
    default_class: ClassId,
    matcher: LimitMatcher,
    /// The same resource with only its shadow limits, unless this is such a resource itself.
    shadow: Option<Arc<Resource>>,
    wall_clock: WallClockOrigin,
}

impl Resource {
    /// Validates a specification.
    ///
    /// # Errors
    /// The first of its [faults](Resource::faults).
    pub fn new(spec: &ResourceSpec) -> Result<Self, SpecError> {
        if let Some(fault) = faults(spec).into_iter().next() {
            return Err(fault);
        }
        // Buckets of shadow limits always start full.
        let observed = ResourceSpec { start: StartPolicy::Full, ..spec.clone() };
        let shadow = Resource::with_limits(observed, |limit| limit.shadow, None);
        Ok(Resource::with_limits(spec.clone(), |limit| !limit.shadow, Some(Arc::new(shadow))))
    }

    /// Returns all faults of a specification, with their fields.
    #[must_use]
    pub fn faults(spec: &ResourceSpec) -> Vec<SpecError> {
        faults(spec)
    }

    /// Builds the resource of a valid specification from the limits that `include` accepts.
    fn with_limits(spec: ResourceSpec, include: fn(&LimitSpec) -> bool, shadow: Option<Arc<Resource>>) -> Self {
        let classes = spec.classes_or_default();
        let headrooms = distinct_headrooms(&classes);
        let limits = in_force(&spec).filter(include);
        let limits: Arc<[Limit]> = limits.map(|limit| Limit::new(&limit, &headrooms)).collect();
        let default = classes.iter().position(|class| Some(&class.name) == spec.default_class.as_ref());
        Resource {
            matcher: LimitMatcher::new(limits.iter().map(|limit| &limit.spec().applies)),
            limits,
            classes: classes.iter().map(|class| Class::new(class, &headrooms)).collect(),
            default_class: ClassId::of_index(default.unwrap_or(0)),
            shadow,
            spec: Arc::new(spec),
            wall_clock: WallClockOrigin::UNIX_EPOCH,
        }
    }

    /// Makes the windows follow another wall clock. By default time begins with 1970.
    #[must_use]
    pub fn with_wall_clock(self, wall_clock: WallClockOrigin) -> Self {
        let limits = self.limits.iter().map(|limit| limit.clone().with_wall_clock(wall_clock)).collect();
        let shadow = self.shadow.map(|shadow| Arc::new((*shadow).clone().with_wall_clock(wall_clock)));
        Resource { limits, shadow, wall_clock, ..self }
    }

    /// Returns how far ahead a start may be reserved.
    #[must_use]
    pub fn max_ahead(&self) -> Span {
        let longest = || self.limits.iter().map(|limit| limit.spec().period).max().unwrap_or(Span::ZERO);
        self.spec.max_ahead.unwrap_or_else(|| longest().clamp(*DEFAULT_AHEAD.start(), *DEFAULT_AHEAD.end()))
    }

    /// Returns the wall clock that its windows follow.
    #[must_use]
    pub fn wall_clock(&self) -> WallClockOrigin {
        self.wall_clock
    }

    /// Iterates over the limits of `bill` that count calls in flight, with the lengths of leases.
    pub fn leases(&self, bill: &Bill) -> impl Iterator<Item = (LimitId, Span)> {
        let occupied = bill.charged().filter(|limit| self[*limit].counts_calls_in_flight());
        occupied.map(|limit| (limit, self[limit].spec().period))
    }

    /// Returns the charges of a bill to limits that count calls in flight.
    #[must_use]
    pub fn in_flight_part(&self, bill: &Bill) -> Bill {
        bill.map_charges(|limit, amount| self[limit].counts_calls_in_flight().then_some((limit, amount)))
    }

    /// Returns the limits whose unused capacity is lost at the end of a window.
    #[must_use]
    pub fn windowed(&self) -> LimitSet {
        let windowed = self.limits_by_id().filter(|(_, limit)| !limit.has_tokens() && !limit.counts_calls_in_flight());
        windowed.fold(LimitSet::NONE, |set, (id, _)| set.with(id))
    }

    /// Returns the same resource with these limits after its own.
    ///
    /// # Errors
    /// The first fault of the resulting resource.
    pub fn extended(&self, more: impl Iterator<Item = LimitSpec>) -> Result<Self, SpecError> {
        let limits = self.spec.limits.iter().cloned().chain(more).collect();
        let resource = Resource::new(&ResourceSpec { limits, ..(*self.spec).clone() })?;
        Ok(resource.with_wall_clock(self.wall_clock))
    }

    /// Returns the specification.
    #[must_use]
    pub fn spec(&self) -> &ResourceSpec {
        &self.spec
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.spec.name
    }

    /// Returns its shadow limits, as a resource.
    #[must_use]
    pub fn shadow(&self) -> &Resource {
        self.shadow.as_deref().unwrap_or(self)
    }

    /// Returns its limits, without those in shadow mode.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Returns its limits, to be kept elsewhere.
    #[must_use]
    pub fn shared_limits(&self) -> Arc<[Limit]> {
        Arc::clone(&self.limits)
    }

    /// Converts `amount` to credit of `limit`.
    #[must_use]
    pub fn credit(&self, limit: LimitId, amount: Amount) -> Credit {
        self[limit].rate().credit(amount)
    }

    /// Iterates over its limits with their ids.
    pub fn limits_by_id(&self) -> impl Iterator<Item = (LimitId, &Limit)> + Clone {
        (0..).map(LimitId).zip(self.limits())
    }

    /// Returns its classes, the most urgent first.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Iterates over its classes with their ids.
    pub fn classes_by_id(&self) -> impl Iterator<Item = (ClassId, &Class)> + Clone {
        (0..).map(ClassId).zip(&self.classes)
    }

    /// Returns the class of requests that name none.
    #[must_use]
    pub fn default_class(&self) -> ClassId {
        self.default_class
    }

    /// Returns the longest refill time among the bill's charges: its dominant share. Limits of
    /// single clients count only if the bill has no others, as they are no part of what all share.
    #[must_use]
    pub fn dominant_share(&self, bill: &Bill) -> Span {
        let client = self.spec.fair_share.as_ref().map(|fair| &fair.label);
        let is_own = |id: LimitId| client.is_some_and(|label| self[id].spec().applies.matching.contains_key(label));
        let refill = |(id, amount)| (!is_own(id), self[id].rate().refill_span(self.credit(id, amount)));
        bill.shared().map(refill).max().map_or(Span::ZERO, |(_, share)| share)
    }

    /// Returns the weight of a client in its fair share.
    #[must_use]
    pub fn weight(&self, client: &str) -> Weight {
        let weights = self.spec.fair_share.as_ref().map(|fair| &fair.weights);
        weights.and_then(|weights| weights.get(client)).copied().unwrap_or(Weight::ONE)
    }

    /// Returns the class called `name`.
    ///
    /// # Errors
    /// [`Refusal::UnknownClass`] with the names of all classes.
    pub fn class(&self, name: &str) -> Result<ClassId, Refusal> {
        match self.classes_by_id().find(|(_, class)| *class.name == *name) {
            Some((id, _)) => Ok(id),
            None => Err(Refusal::UnknownClass { known: self.classes.iter().map(|class| class.name.clone()).collect() }),
        }
    }

    /// Computes a call's charges by labels and cost, which includes one request if it does not name `requests`.
    ///
    /// # Errors
    /// [`Refusal::UnknownUnit`] for a unit that no limit counts. [`Refusal::Uncounted`] for an
    /// empty cost if no limit counts `requests`. [`Refusal::NeverFits`] for a cost above a limit's
    /// capacity. [`Refusal::NoLimit`] if no limit applies and the resource requires one.
    pub fn bill<'a>(
        &self,
        labels: &Labels<'_>,
        cost: impl Iterator<Item = (&'a str, Amount)> + Clone,
    ) -> Result<Bill, Refusal> {
        self.check_units(cost.clone())?;
        self.check_default_cost(cost.clone())?;
        let mut bill = self.charges(labels, cost.clone());
        self.check_payable(&bill)?;
        if !self.spec.learn_costs.is_empty() {
            bill.kind = Some(joined_key(&self.spec.learn_costs, labels));
        }
        if self.spec.discover == Discover::All {
            bill.traits = self.traits(labels).map(Arc::new);
        }
        if !self.shadow().limits.is_empty() {
            bill.shadow = Some(Box::new(self.shadow().charges(labels, cost)));
        }
        let unmatched = bill.is_unmatched() && bill.shadow.as_deref().is_none_or(Bill::is_unmatched);
        match self.spec.unmatched {
            Unmatched::Refuse if unmatched => Err(Refusal::NoLimit),
            Unmatched::Refuse | Unmatched::Allow => Ok(bill),
        }
    }

    /// Returns the labels of the call by which discovered limits may apply.
    fn traits(&self, labels: &Labels<'_>) -> Option<CallTraits> {
        let route = self.spec.discover_route.as_ref().and_then(|label| labels.get(label)).map(str::to_owned);
        let keys = self.spec.discover_key.iter().filter(|label| labels.get(label).is_some()).cloned();
        let traits = CallTraits { route, keys: keys.collect() };
        (traits != CallTraits::default()).then_some(traits)
    }

    /// Computes the charges of a call, even above a limit's capacity.
    fn charges<'a>(&self, labels: &Labels<'_>, cost: impl Iterator<Item = (&'a str, Amount)> + Clone) -> Bill {
        let mut bill = Bill::default();
        for (limit, key) in self.matcher.matching(labels) {
            let unit = &self[limit].spec().unit;
            let implied = if **unit == *REQUESTS { Amount::ONE } else { Amount::ZERO };
            bill.charge(limit, key, amount_of(unit, cost.clone()).unwrap_or(implied));
        }
        bill
    }

    /// Checks that no charge is above its limit's capacity.
    ///
    /// # Errors
    /// [`Refusal::NeverFits`] for one that is.
    pub fn check_payable(&self, bill: &Bill) -> Result<(), Refusal> {
        let capacity = |limit: LimitId| self[limit].spec().capacity;
        let is_payable = |limit: LimitId, amount| amount <= capacity(limit) || self[limit].spec().is_steered();
        match bill.amounts().find(|(limit, amount)| !is_payable(*limit, *amount)) {
            Some((limit, cost)) => Err(Refusal::NeverFits { limit, cost, capacity: capacity(limit) }),
            None => Ok(()),
        }
    }

    /// Replaces the charges for each unit of `actual` by the actual cost.
    pub fn corrected<'a>(&self, bill: &Bill, actual: impl Iterator<Item = (&'a str, Amount)> + Clone) -> Bill {
        bill.map_charges(|limit, amount| {
            let actual = amount_of(&self[limit].spec().unit, actual.clone());
            Some((limit, actual.unwrap_or(amount)))
        })
    }

    /// Iterates over its limits that have a bucket for each key.
    pub fn keyed_limits(&self) -> impl Iterator<Item = LimitId> {
        self.limits_by_id().filter(|(_, limit)| limit.is_keyed()).map(|(id, _)| id)
    }

    /// Returns the limit called `name`.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<LimitId> {
        self.limits_by_id().find(|(_, limit)| *limit.spec().name == *name).map(|(id, _)| id)
    }

    /// Returns whether at most the limits differ, so that permits and queues can be kept.
    #[must_use]
    pub fn differs_in_limits_alone(&self, other: &Resource) -> bool {
        let rest = |resource: &Resource| ResourceSpec { limits: Vec::new(), ..resource.spec().clone() };
        rest(self) == rest(other)
    }

    /// Returns whether bills of one resource are valid for the other.
    #[must_use]
    pub fn shares_bills_with(&self, other: &Resource) -> bool {
        let (own, others) = (&self.spec.limits, &other.spec.limits);
        let is_same =
            |(own, other): (&LimitSpec, &LimitSpec)| own.shadow == other.shadow && own.is_same_for_calls(other);
        own.len() == others.len() && own.iter().zip(others).all(is_same)
    }

    /// Returns whether a limit counts this unit, in shadow mode or not.
    #[must_use]
    pub fn counts(&self, unit: &str) -> bool {
        self.spec.limits.iter().any(|limit| *limit.unit == *unit)
    }

    /// Checks that limits count all units, unless such limits may be discovered later.
    ///
    /// # Errors
    /// [`Refusal::UnknownUnit`] for a unit that no limit counts.
    pub fn check_units<'a>(&self, mut cost: impl Iterator<Item = (&'a str, Amount)>) -> Result<(), Refusal> {
        match cost.find(|(unit, _)| !self.counts(unit) && self.spec.discover != Discover::All) {
            Some((unit, _)) => Err(Refusal::UnknownUnit { unit: unit.to_owned(), known: self.units() }),
            None => Ok(()),
        }
    }

    /// Returns [`Refusal::Uncounted`] if nothing is stated and no limit counts `requests`.
    fn check_default_cost<'a>(&self, mut cost: impl Iterator<Item = (&'a str, Amount)>) -> Result<(), Refusal> {
        let is_free = self.spec.uncounted == Uncounted::Allow || self.spec.discover == Discover::All;
        match is_free || cost.next().is_some() || self.counts(REQUESTS) {
            true => Ok(()),
            false => Err(Refusal::Uncounted { known: self.units() }),
        }
    }

    /// Returns whether all conditions of `limit` hold for these labels, even if its key lacks some.
    #[must_use]
    pub fn conditions_hold(&self, limit: LimitId, labels: &Labels<'_>) -> bool {
        self.matcher.conditions_hold(limit, labels)
    }

    /// Returns the tier of a class.
    #[must_use]
    pub fn tier(&self, class: ClassId) -> Tier {
        self.classes()[class.index()].tier
    }

    /// Returns the units that its limits count, each once, in order.
    #[must_use]
    pub fn units(&self) -> Vec<Name> {
        let units: BTreeSet<&Name> = self.spec.limits.iter().map(|limit| &limit.unit).collect();
        units.into_iter().cloned().collect()
    }
}

impl Index<LimitId> for Resource {
    type Output = Limit;

    fn index(&self, limit: LimitId) -> &Limit {
        &self.limits[limit.index()]
    }
}

/// Returns a cost in the form that [`Resource::bill`] takes.
pub fn by_unit(cost: &[(String, Amount)]) -> impl Iterator<Item = (&str, Amount)> + Clone {
    cost.iter().map(|(unit, amount)| (unit.as_str(), *amount))
}

fn amount_of<'a>(unit: &str, mut cost: impl Iterator<Item = (&'a str, Amount)>) -> Option<Amount> {
    cost.find(|(known, _)| *known == unit).map(|(_, amount)| amount)
}

/// Returns the distinct headrooms in ascending order, by tier. Tier 0 leaves none and serves promoted requests.
fn distinct_headrooms(classes: &[ClassSpec]) -> Vec<u32> {
    let headrooms = classes.iter().map(|class| parts_per_million(class.headroom)).chain([0]);
    headrooms.collect::<BTreeSet<u32>>().into_iter().collect()
}
