//! What a resource is made from: plain values, checked once by [`Resource::new`].
//!
//! [`Resource::new`]: crate::policy::resource::Resource::new

pub use super::algorithm::Algorithm;
pub use super::alignment::Alignment;
pub use super::applies::{Applies, Pattern};
pub use super::weight::Weight;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Most limits of one resource: a vector of them is evaluated for every request.
pub const MAX_LIMITS: usize = 64;
/// Most classes of one resource; people tell apart a handful.
pub const MAX_CLASSES: usize = 16;
/// Longest period of a limit: no upstream's quota lasts longer than a year.
pub const MAX_PERIOD: Span = Span::from_secs(366 * 86_400);

/// One resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceSpec {
    /// Its name.
    pub name: Name,
    /// Its limits, at least one.
    pub limits: Vec<LimitSpec>,
    /// Its classes, the most urgent first; none means one class `default`.
    pub classes: Vec<ClassSpec>,
    /// The class of requests that name none; the first class where this is left out.
    pub default_class: Option<Name>,
    /// The level of buckets that were never heard of.
    pub start: StartPolicy,
    /// How far ahead a waiting request is committed to a start.
    pub horizon: Span,
    /// What is refused beyond.
    pub bounds: Bounds,
    /// How much is set aside in the store ahead of need, as the time in which limits refill it: what a crash may cost.
    pub reservation: Span,
    /// What to do when the store does not answer.
    pub on_store_loss: OnStoreLoss,
    /// How long after its start a permit lapses.
    pub validity: Span,
    /// Between whom a class is shared; first come, first served where this is left out.
    pub fair_share: Option<FairShare>,
    /// What becomes of requests that no limit is for.
    pub unmatched: Unmatched,
    /// The labels that tell kinds of calls apart, to learn how far estimates of their costs are off; nothing is learned where there
    /// are none.
    pub learn_costs: Vec<String>,
}

impl ResourceSpec {
    /// A resource with these limits and defaults for the rest.
    #[must_use]
    pub fn new(name: Name, limits: Vec<LimitSpec>) -> Self {
        ResourceSpec {
            name,
            limits,
            classes: Vec::new(),
            default_class: None,
            start: StartPolicy::Full,
            horizon: DEFAULT_HORIZON,
            bounds: Bounds::default(),
            reservation: DEFAULT_RESERVATION,
            on_store_loss: OnStoreLoss::Hold,
            validity: DEFAULT_VALIDITY,
            fair_share: None,
            unmatched: Unmatched::Allow,
            learn_costs: Vec::new(),
        }
    }

    /// Its classes, at least one.
    pub(crate) fn classes_or_default(&self) -> Cow<'_, [ClassSpec]> {
        if self.classes.is_empty() {
            return Cow::Owned(vec![ClassSpec::new(Name::new("default").expect("a valid name"))]);
        }
        Cow::Borrowed(&self.classes)
    }
}

/// What becomes of requests that no limit is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unmatched {
    /// They are granted at once.
    #[default]
    Allow,
    /// They are refused: nobody unknown gets through.
    Refuse,
}

/// Shares what each class gets between clients, by their dominant shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairShare {
    /// The label whose value names a request's client.
    pub label: String,
    /// Clients that get more or less than others; a client that is not named has a weight of one.
    pub weights: BTreeMap<String, Weight>,
}

/// What to do when the store does not answer and what was set aside is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreLoss {
    /// Grant nothing more until it does.
    #[default]
    Hold,
    /// Go on for this long. If the scheduler dies meanwhile, its successor may admit too much: at most what the limits refill in
    /// this time.
    Ride(Span),
}

/// A little longer than the time between two writes to the store, of which there are four in a second.
pub const DEFAULT_RESERVATION: Span = Span::from_millis(300);
/// Shorter than this, every permit would wait for the store.
pub const SHORTEST_RESERVATION: Span = Span::from_millis(50);
/// What a crash may cost at most.
pub const LONGEST_RESERVATION: Span = Span::from_secs(60);
/// Longer than this is not riding out a failure.
pub const LONGEST_RIDE: Span = Span::from_secs(3600);
/// Shorter than this, a permit would lapse on its way.
pub const SHORTEST_VALIDITY: Span = Span::from_millis(100);

/// Far longer than any worker needs, and short enough that what it did not use in time is nobody's burst.
pub const DEFAULT_VALIDITY: Span = Span::from_secs(5);

/// Round trip and jitter: a permit must reach its worker before its start.
pub const DEFAULT_HORIZON: Span = Span::from_millis(50);

/// One limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitSpec {
    /// Its name, unique in the resource.
    pub name: Name,
    /// The unit of cost that it counts.
    pub unit: Name,
    /// How it counts.
    pub algorithm: Algorithm,
    /// What a full bucket of the upstream holds.
    pub capacity: Amount,
    /// In which time an empty bucket fills.
    pub period: Span,
    /// Stock held back against jitter.
    pub margin: Margin,
    /// Whether it is learned what the upstream really does.
    pub learn: Learn,
    /// Which requests it is for, and whether it has buckets by key.
    pub applies: Applies,
    /// Whether it is in shadow mode: it is measured whom it would hold up, and nobody is.
    pub shadow: bool,
}

impl LimitSpec {
    /// A token bucket for every request, with defaults for the rest.
    #[must_use]
    pub fn new(name: Name, unit: Name, capacity: Amount, period: Span) -> Self {
        let (algorithm, margin, learn, applies) =
            (Algorithm::default(), Margin::Auto, Learn::default(), Applies::default());
        LimitSpec { name, unit, algorithm, capacity, period, margin, learn, applies, shadow: false }
    }
}

/// Whether a limit follows what its upstream turns out to do: a lower rate, a smaller burst, a stock held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Learn {
    /// As configured, whatever the upstream says. Levels are corrected all the same.
    Never,
    /// The rate is never taken to be lower than this share of the configured one.
    Above(f64),
}

/// With less than this, a limit would hardly notice that its upstream is back.
pub const LEAST_FLOOR: f64 = 0.01;

/// The least share of a rate that others are taken to leave, where nothing else is said.
pub const DEFAULT_FLOOR: f64 = 0.1;

impl Default for Learn {
    fn default() -> Self {
        Learn::Above(DEFAULT_FLOOR)
    }
}

/// How much stock a limit holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// Rate × 50 ms + 1, at most a tenth of the capacity.
    Auto,
    /// This much; with zero, delays are those of the plain formula.
    Fixed(Amount),
}

/// One class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    /// Its name, unique in the resource.
    pub name: Name,
    /// The share of every limit's capacity that its starts leave for the classes above.
    pub headroom: f64,
    /// How long its oldest request waits before it goes ahead of everybody, or since its class was last served for the same limits.
    pub max_starvation: Option<Span>,
}

impl ClassSpec {
    /// A class that leaves no headroom and is never promoted.
    #[must_use]
    pub fn new(name: Name) -> Self {
        ClassSpec { name, headroom: 0.0, max_starvation: None }
    }
}

/// The level of buckets that were never heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartPolicy {
    /// As an upstream's that nobody has used.
    #[default]
    Full,
    /// As one that should be full: it is drawn on with care until calls have shown that it was. Answers that are binding trust it.
    Unproven,
    /// As an upstream's that somebody has just used up.
    Empty,
}

/// Permits that take nothing of any limit and are remembered beside those that do: what was given back, and what costs nothing.
/// They have a bound of their own, so that no client fills the memory of others with them; about 8 MB. Beyond it the oldest is
/// forgotten: its id is a new one, which is charged if a late copy of its request still comes.
pub const MAX_IDLE_PERMITS: usize = 65_536;

/// What is refused beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Requests that wait at once. Beyond this, workers wait at home.
    pub max_waiting: usize,
    /// Permits that are remembered at once, about 100 bytes each: enough for 66 000 permits per
    /// second during the minute for which an id must be known.
    pub max_permits: usize,
    /// Buckets by key that are not full, about 150 bytes each.
    pub max_keys: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { max_waiting: 100_000, max_permits: 4_000_000, max_keys: 1_000_000 }
    }
}

/// What is wrong with a resource, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct SpecError {
    /// The part at fault.
    pub place: SpecField,
    /// What would be right.
    pub reason: String,
}

/// A part of a resource's specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecField {
    /// A field of the resource itself.
    Resource(&'static str),
    /// A field of the limit with this index.
    Limit(usize, &'static str),
    /// A field of the class with this index.
    Class(usize, &'static str),
}
