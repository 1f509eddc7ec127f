//! A resource as the core knows it: limits and classes, checked.

use crate::bill::Bill;
use crate::checks::{check_classes, check_limits, check_times, fault};
use crate::limit::{Limit, Tier, parts_per_million};
use crate::limit_set::LimitSet;
use crate::reach::{Belongs, Reach, joined};
use crate::refusal::Refusal;
use crate::rules::Succession;
use crate::spec::{ClassSpec, LimitSpec, Place, ResourceSpec, SpecError, Start, Unmatched};
use crate::virtual_time::Weight;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

/// The index of a class in its resource, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub(crate) u8);

impl ClassId {
    /// As an index into [`Resource::classes`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The index of a limit in its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitId(pub(crate) u8);

impl LimitId {
    /// As an index into [`Resource::limits`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One class.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name.
    pub name: Name,
    /// How long its oldest request waits before it goes ahead of everybody.
    pub max_starvation: Option<Span>,
    pub(crate) tier: Tier,
}

/// One upstream account: its limits and classes. Wrong ones can't be built.
#[derive(Clone, Debug)]
pub struct Resource {
    spec: Arc<ResourceSpec>,
    limits: Vec<Limit>,
    classes: Vec<Class>,
    default_class: ClassId,
    reach: Reach,
    /// The same with the limits in shadow mode alone, if there are some.
    shadow: Option<Arc<Resource>>,
}

impl Resource {
    /// Checks a specification.
    ///
    /// # Errors
    /// The first fault found, with its place.
    pub fn new(spec: &ResourceSpec) -> Result<Self, SpecError> {
        let implied = [ClassSpec::new(Name::new("default").expect("a valid name"))];
        let classes = if spec.classes.is_empty() { &implied[..] } else { &spec.classes[..] };
        check_limits(&spec.limits)?;
        check_classes(classes)?;
        check_times(spec)?;
        let headrooms = distinct_headrooms(classes);
        let default_class = default_class(spec, classes)?;
        Reach::new(&spec.limits).map_err(|(index, reason)| fault(Place::Limit(index, "match"), reason))?;
        let enforced: Vec<LimitSpec> = spec.limits.iter().filter(|limit| !limit.shadow).cloned().collect();
        Ok(Resource {
            shadow: shadow_of(spec).as_ref().map(Resource::new).transpose()?.map(Arc::new),
            spec: Arc::new(spec.clone()),
            limits: enforced.iter().map(|limit| Limit::new(limit, &headrooms)).collect(),
            default_class,
            classes: classes.iter().map(|class| Class::new(class, &headrooms)).collect(),
            reach: Reach::new(&enforced).map_err(|(index, reason)| fault(Place::Limit(index, "match"), reason))?,
        })
    }

    /// The same where the wall clock showed this at the origin of time, in nanoseconds since 1970: windows begin when clocks on the wall
    /// say so. Without this, the origin of time is that of the wall clock.
    #[must_use]
    pub fn at_unix(self, unix_at_origin: u64) -> Self {
        let limits = self.limits.into_iter().map(|limit| limit.at_unix(unix_at_origin)).collect();
        let shadow = self.shadow.map(|shadow| Arc::new((*shadow).clone().at_unix(unix_at_origin)));
        Resource { limits, shadow, ..self }
    }

    /// What the wall clock showed at the origin of time.
    pub(crate) fn unix_at_origin(&self) -> u64 {
        self.limits.first().map_or(0, Limit::unix_at_origin)
    }

    /// Whether a bill takes up room until its call is settled.
    pub(crate) fn frees_when_settled(&self, bill: &Bill) -> bool {
        bill.charged().any(|limit| self.limits[limit.index()].is_until_settled())
    }

    /// How soon a place that its call takes up is free again if nobody hears of the call; none where it takes up no place.
    pub(crate) fn lease(&self, bill: &Bill) -> Option<Span> {
        self.leases(bill).map(|(_, lease)| lease).min()
    }

    /// The limits that take up room until the call is settled, and how long a lease of each is.
    pub(crate) fn leases(&self, bill: &Bill) -> impl Iterator<Item = (LimitId, Span)> {
        let limits = bill.charged().map(|limit| (limit, &self.limits[limit.index()]));
        limits.filter(|(_, limit)| limit.is_until_settled()).map(|(id, limit)| (id, limit.spec().period))
    }

    /// Those charges of a bill that take up room until the call is settled.
    pub(crate) fn held_part(&self, bill: &Bill) -> Bill {
        let mut part = Bill::new();
        for (limit, amount) in bill.iter().filter(|(limit, _)| self.limits[limit.index()].is_until_settled()) {
            part.set(limit, amount);
        }
        for charge in bill.keyed().filter(|charge| self.limits[charge.limit.index()].is_until_settled()) {
            part.set_key(charge.limit, Arc::clone(&charge.key), charge.amount);
        }
        part
    }

    /// The limits that give out so much in a window.
    pub(crate) fn windowed(&self) -> LimitSet {
        let windowed = self.limits_by_id().filter(|(_, limit)| limit.is_windowed());
        windowed.fold(LimitSet::default(), |set, (id, _)| set.with(id))
    }

    /// What it was made from.
    #[must_use]
    pub fn spec(&self) -> &ResourceSpec {
        &self.spec
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.spec.name
    }

    /// The same with its limits in shadow mode alone, if it has some.
    pub(crate) fn shadow(&self) -> Option<&Arc<Resource>> {
        self.shadow.as_ref()
    }

    /// What the limits that count were made from, in their order.
    pub(crate) fn enforced(&self) -> impl Iterator<Item = &LimitSpec> {
        self.spec.limits.iter().filter(|limit| !limit.shadow)
    }

    /// Its limits, but for those in shadow mode.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The same with their ids.
    pub(crate) fn limits_by_id(&self) -> impl Iterator<Item = (LimitId, &Limit)> + Clone {
        (0..).map(LimitId).zip(&self.limits)
    }

    /// Its classes, the most urgent first.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The same with their ids.
    pub(crate) fn classes_by_id(&self) -> impl Iterator<Item = (ClassId, &Class)> + Clone {
        (0..).map(ClassId).zip(&self.classes)
    }

    /// The class of requests that name none.
    #[must_use]
    pub fn default_class(&self) -> ClassId {
        self.default_class
    }

    /// The largest of a bill's shares of the limits' rates: for how long it takes up the limit that it burdens most.
    pub(crate) fn dominant_share(&self, bill: &Bill) -> Span {
        let refill = |(id, amount): (LimitId, Amount)| {
            let rate = self.limits[id.index()].rate();
            rate.time_to_refill(rate.credit(amount)).since(Time::ORIGIN)
        };
        bill.iter().map(refill).max().unwrap_or(Span::ZERO)
    }

    pub(crate) fn weight(&self, client: &str) -> Weight {
        let weights = self.spec.fair_share.as_ref().map(|fair| &fair.weights);
        weights.and_then(|weights| weights.get(client)).copied().unwrap_or(Weight::ONE)
    }

    /// The class called `name`.
    ///
    /// # Errors
    /// [`Refusal::UnknownClass`], which says what classes there are.
    pub fn class(&self, name: &str) -> Result<ClassId, Refusal> {
        match self.classes_by_id().find(|(_, class)| *class.name == *name) {
            Some((id, _)) => Ok(id),
            None => Err(Refusal::UnknownClass { known: self.classes.iter().map(|class| class.name.clone()).collect() }),
        }
    }

    /// What a call with these labels and of this cost takes from each bucket. A call makes one request unless it says
    /// otherwise.
    ///
    /// # Errors
    /// [`Refusal::UnknownUnit`] for a unit that no limit counts, [`Refusal::NeverFits`] for a
    /// cost above a limit's capacity, [`Refusal::NoLimit`] where no limit is for the call and the resource wants one.
    pub fn bill<'a>(
        &self,
        labels: &Labels<'_>,
        cost: impl Iterator<Item = (&'a str, Amount)> + Clone,
    ) -> Result<Bill, Refusal> {
        self.check_units(cost.clone())?;
        let mut bill = Bill::new();
        if !self.spec.learn_costs.is_empty() {
            bill.set_kind(joined(&self.spec.learn_costs, labels));
        }
        if let Some(shadow) = &self.shadow {
            bill.set_shadow(shadow.shadow_bill(labels, cost.clone()));
        }
        if self.reach.is_unconditional() && !self.limits.is_empty() {
            for index in 0..self.limits.len() {
                let limit = LimitId(index as u8);
                bill.set(limit, self.amount(limit, cost.clone())?);
            }
            return Ok(bill);
        }
        for belongs in self.reach.of(labels) {
            match belongs {
                Belongs::Shared(limit) => bill.set(limit, self.amount(limit, cost.clone())?),
                Belongs::Keyed(limit, key) => bill.set_key(limit, key, self.amount(limit, cost.clone())?),
            }
        }
        let unmatched = bill.reached() == LimitSet::default() && bill.shadow().is_none_or(Bill::reaches_nothing);
        match self.spec.unmatched {
            Unmatched::Refuse if unmatched => Err(Refusal::NoLimit),
            Unmatched::Refuse | Unmatched::Allow => Ok(bill),
        }
    }

    /// What a call would take from limits in shadow mode, be it more than they hold.
    fn shadow_bill<'a>(&self, labels: &Labels<'_>, cost: impl Iterator<Item = (&'a str, Amount)> + Clone) -> Bill {
        let mut bill = Bill::new();
        for belongs in self.reach.of(labels) {
            let (Belongs::Shared(limit) | Belongs::Keyed(limit, _)) = &belongs;
            let unit = &self.limits[limit.index()].spec().unit;
            let amount = amount_of(unit, cost.clone()).unwrap_or_else(|| implied_amount(unit));
            match belongs {
                Belongs::Shared(limit) => bill.set(limit, amount),
                Belongs::Keyed(limit, key) => bill.set_key(limit, key, amount),
            }
        }
        bill
    }

    /// What a call takes from a limit that is for it.
    fn amount<'a>(
        &self,
        id: LimitId,
        cost: impl Iterator<Item = (&'a str, Amount)> + Clone,
    ) -> Result<Amount, Refusal> {
        let limit = &self.limits[id.index()];
        let amount = amount_of(&limit.spec().unit, cost).unwrap_or_else(|| implied_amount(&limit.spec().unit));
        if amount > limit.spec().capacity {
            return Err(Refusal::NeverFits { limit: id, cost: amount, capacity: limit.spec().capacity });
        }
        Ok(amount)
    }

    /// What a call turned out to cost: `bill` with the units that `actual` names replaced.
    ///
    /// # Errors
    /// [`Refusal::UnknownUnit`] for a unit that no limit counts.
    pub fn corrected<'a>(
        &self,
        bill: &Bill,
        actual: impl Iterator<Item = (&'a str, Amount)> + Clone,
    ) -> Result<Bill, Refusal> {
        self.check_units(actual.clone())?;
        Ok(self.with_amounts(bill, actual))
    }

    /// `bill` with the amounts of these units.
    pub(crate) fn with_amounts<'a>(
        &self,
        bill: &Bill,
        actual: impl Iterator<Item = (&'a str, Amount)> + Clone,
    ) -> Bill {
        let mut corrected = bill.clone();
        for id in bill.reached().limits() {
            if let Some(amount) = amount_of(&self.limits[id.index()].spec().unit, actual.clone()) {
                corrected.set(id, amount);
            }
        }
        corrected
    }

    /// The limits that have a bucket for each key.
    pub(crate) fn keyed_limits(&self) -> impl Iterator<Item = LimitId> {
        self.limits_by_id().filter(|(_, limit)| limit.is_keyed()).map(|(id, _)| id)
    }

    /// The limit called `name`.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<LimitId> {
        self.limits_by_id().find(|(_, limit)| *limit.spec().name == *name).map(|(id, _)| id)
    }

    /// Whether nothing but limits differs, so that permits and lines can go on.
    #[must_use]
    pub fn differs_in_limits_alone(&self, other: &Resource) -> bool {
        let rest = |resource: &Resource| ResourceSpec { limits: Vec::new(), ..resource.spec().clone() };
        rest(self) == rest(other)
    }

    /// Whether bills of the one are bills of the other.
    pub(crate) fn charges_as(&self, other: &Resource) -> bool {
        let shadows_alike = match (&self.shadow, &other.shadow) {
            (Some(own), Some(theirs)) => own.charges_as(theirs),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        shadows_alike && Succession::between(other, self).is_same()
    }

    /// Why a bill can't be paid ever, if it can't.
    pub(crate) fn unpayable(&self, bill: &Bill) -> Option<Refusal> {
        let (limit, cost) =
            bill.amounts().find(|(limit, amount)| *amount > self.limits[limit.index()].spec().capacity)?;
        Some(Refusal::NeverFits { limit, cost, capacity: self.limits[limit.index()].spec().capacity })
    }

    /// The limit that counts this unit, if there is just one.
    #[must_use]
    pub fn only_limit_of(&self, unit: &str) -> Option<LimitId> {
        let mut counting = self.limits_by_id().filter(|(_, limit)| *limit.spec().unit == *unit);
        let (only, _) = counting.next()?;
        counting.next().is_none().then_some(only)
    }

    /// Whether a limit counts this unit.
    #[must_use]
    pub fn counts(&self, unit: &str) -> bool {
        let counted = |resource: &Resource| resource.limits.iter().any(|limit| *limit.spec().unit == *unit);
        counted(self) || self.shadow.as_deref().is_some_and(counted)
    }

    fn check_units<'a>(&self, mut cost: impl Iterator<Item = (&'a str, Amount)>) -> Result<(), Refusal> {
        match cost.find(|(unit, _)| !self.counts(unit)) {
            Some((unit, _)) => Err(Refusal::UnknownUnit { unit: unit.to_owned(), known: self.units() }),
            None => Ok(()),
        }
    }

    pub(crate) fn units(&self) -> Vec<Name> {
        let mut units: Vec<Name> = self.spec.limits.iter().map(|limit| limit.unit.clone()).collect();
        units.sort();
        units.dedup();
        units
    }
}

impl Class {
    fn new(spec: &ClassSpec, headrooms: &[u32]) -> Self {
        let headroom = parts_per_million(spec.headroom);
        let tier = headrooms.iter().position(|known| *known == headroom).expect("every headroom has a tier");
        Class { name: spec.name.clone(), max_starvation: spec.max_starvation, tier: tier as Tier }
    }
}

fn amount_of<'a>(unit: &str, mut cost: impl Iterator<Item = (&'a str, Amount)>) -> Option<Amount> {
    cost.find(|(known, _)| *known == unit).map(|(_, amount)| amount)
}

fn implied_amount(unit: &str) -> Amount {
    if unit == REQUESTS { Amount::ONE } else { Amount::ZERO }
}

/// The same resource with the limits in shadow mode alone, as if they were enforced: their buckets are full at first.
fn shadow_of(spec: &ResourceSpec) -> Option<ResourceSpec> {
    let limits = spec.limits.iter().filter(|limit| limit.shadow);
    let limits: Vec<LimitSpec> = limits.map(|limit| LimitSpec { shadow: false, ..limit.clone() }).collect();
    (!limits.is_empty()).then(|| ResourceSpec { limits, start: Start::Full, ..spec.clone() })
}

/// Tier 0 leaves nothing: it is that of a promoted request.
fn distinct_headrooms(classes: &[ClassSpec]) -> Vec<u32> {
    let mut headrooms: Vec<u32> = classes.iter().map(|class| parts_per_million(class.headroom)).collect();
    headrooms.push(0);
    headrooms.sort_unstable();
    headrooms.dedup();
    headrooms
}

fn default_class(spec: &ResourceSpec, classes: &[ClassSpec]) -> Result<ClassId, SpecError> {
    let Some(name) = &spec.default_class else { return Ok(ClassId(0)) };
    match classes.iter().position(|class| class.name == *name) {
        Some(index) => Ok(ClassId(index as u8)),
        None => Err(fault(Place::Resource("default_class"), format!("there is no class `{name}`"))),
    }
}
