//! A resource as the core knows it: limits and classes, checked.

use crate::bill::Bill;
use crate::limit::{Limit, Tier};
use crate::refusal::Refusal;
use crate::spec::{
    Bounds, ClassSpec, FairShare, LimitSpec, MAX_CLASSES, MAX_LIMITS, MAX_PERIOD, Margin, Place, ResourceSpec,
    SpecError, Start,
};
use crate::virtual_time::Weight;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};

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
    name: Name,
    limits: Vec<Limit>,
    classes: Vec<Class>,
    default_class: ClassId,
    start: Start,
    horizon: Span,
    bounds: Bounds,
    fair_share: Option<FairShare>,
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
        let headrooms = distinct_headrooms(classes);
        Ok(Resource {
            name: spec.name.clone(),
            limits: spec.limits.iter().map(|limit| Limit::new(limit, &headrooms)).collect(),
            default_class: default_class(spec, classes)?,
            classes: classes.iter().map(|class| Class::new(class, &headrooms)).collect(),
            start: spec.start,
            horizon: spec.horizon,
            bounds: spec.bounds,
            fair_share: spec.fair_share.clone(),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Its limits.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Its classes, the most urgent first.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The class of requests that name none.
    #[must_use]
    pub fn default_class(&self) -> ClassId {
        self.default_class
    }

    /// The level of buckets that were never heard of.
    #[must_use]
    pub fn start(&self) -> Start {
        self.start
    }

    /// How far ahead a waiting request is committed to a start.
    #[must_use]
    pub fn horizon(&self) -> Span {
        self.horizon
    }

    /// What is refused beyond.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The label by whose values classes are shared, if they are.
    #[must_use]
    pub fn fair_share(&self) -> Option<&FairShare> {
        self.fair_share.as_ref()
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
        let weights = self.fair_share.as_ref().map(|fair| &fair.weights);
        weights.and_then(|weights| weights.get(client)).copied().unwrap_or(Weight::ONE)
    }

    /// The class called `name`.
    ///
    /// # Errors
    /// [`Refusal::UnknownClass`], which says what classes there are.
    pub fn class(&self, name: &str) -> Result<ClassId, Refusal> {
        match self.classes.iter().position(|class| &*class.name == name) {
            Some(index) => Ok(ClassId(index as u8)),
            None => Err(Refusal::UnknownClass { known: self.classes.iter().map(|class| class.name.clone()).collect() }),
        }
    }

    /// What a call of this cost takes from each bucket. A call makes one request unless it says
    /// otherwise.
    ///
    /// # Errors
    /// [`Refusal::UnknownUnit`] for a unit that no limit counts, [`Refusal::NeverFits`] for a
    /// cost above a limit's capacity.
    pub fn bill<'a>(&self, cost: impl Iterator<Item = (&'a str, Amount)> + Clone) -> Result<Bill, Refusal> {
        self.check_units(cost.clone())?;
        let mut bill = Bill::new();
        for (index, limit) in self.limits.iter().enumerate() {
            let amount = amount_of(limit.unit(), cost.clone()).unwrap_or_else(|| implied_amount(limit.unit()));
            if amount > limit.capacity() {
                return Err(Refusal::NeverFits {
                    limit: LimitId(index as u8),
                    cost: amount,
                    capacity: limit.capacity(),
                });
            }
            bill.set(LimitId(index as u8), amount);
        }
        Ok(bill)
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
        let mut corrected = bill.clone();
        for (index, limit) in self.limits.iter().enumerate() {
            if let Some(amount) = amount_of(limit.unit(), actual.clone()) {
                corrected.set(LimitId(index as u8), amount);
            }
        }
        Ok(corrected)
    }

    fn check_units<'a>(&self, mut cost: impl Iterator<Item = (&'a str, Amount)>) -> Result<(), Refusal> {
        match cost.find(|(unit, _)| !self.limits.iter().any(|limit| &**limit.unit() == *unit)) {
            Some((unit, _)) => Err(Refusal::UnknownUnit { unit: unit.to_owned(), known: self.units() }),
            None => Ok(()),
        }
    }

    fn units(&self) -> Vec<Name> {
        let mut units: Vec<Name> = self.limits.iter().map(|limit| limit.unit().clone()).collect();
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

fn parts_per_million(share: f64) -> u32 {
    (share * 1e6).ceil() as u32
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

fn check_limits(limits: &[LimitSpec]) -> Result<(), SpecError> {
    if !(1..=MAX_LIMITS).contains(&limits.len()) {
        return Err(fault(Place::Resource("limit"), format!("a resource has 1 to {MAX_LIMITS} limits")));
    }
    limits.iter().enumerate().try_for_each(|(index, limit)| {
        let twice = limits[..index].iter().any(|other| other.name == limit.name);
        check_limit(index, limit, twice)
    })
}

fn check_limit(index: usize, limit: &LimitSpec, twice: bool) -> Result<(), SpecError> {
    let at = |field| Place::Limit(index, field);
    if twice {
        return Err(fault(at("name"), format!("there are two limits `{}`", limit.name)));
    }
    if limit.capacity == Amount::ZERO {
        return Err(fault(at("capacity"), "a capacity is above 0".to_owned()));
    }
    if limit.period == Span::ZERO || limit.period > MAX_PERIOD {
        return Err(fault(at("period"), "a period is above 0 and at most 366 days".to_owned()));
    }
    match limit.margin {
        Margin::Fixed(margin) if margin >= limit.capacity => {
            Err(fault(at("margin"), format!("a margin is below the capacity of {}", limit.capacity)))
        }
        Margin::Fixed(_) | Margin::Auto => Ok(()),
    }
}

fn check_classes(classes: &[ClassSpec]) -> Result<(), SpecError> {
    if classes.len() > MAX_CLASSES {
        return Err(fault(Place::Resource("classes"), format!("a resource has at most {MAX_CLASSES} classes")));
    }
    classes.iter().enumerate().try_for_each(|(index, class)| {
        let twice = classes[..index].iter().any(|other| other.name == class.name);
        check_class(index, class, twice)
    })
}

fn check_class(index: usize, class: &ClassSpec, twice: bool) -> Result<(), SpecError> {
    let at = |field| Place::Class(index, field);
    if twice {
        return Err(fault(at("name"), format!("there are two classes `{}`", class.name)));
    }
    if !(0.0..1.0).contains(&class.headroom) {
        return Err(fault(at("headroom"), format!("a headroom is a share from 0 to below 1, not {}", class.headroom)));
    }
    if class.max_starvation == Some(Span::ZERO) {
        return Err(fault(at("max_starvation"), "a starvation is longer than 0".to_owned()));
    }
    Ok(())
}

fn fault(place: Place, reason: String) -> SpecError {
    SpecError { place, reason }
}
