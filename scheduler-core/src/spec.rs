//! What a resource is made from: plain values, checked once by [`Resource::new`].
//!
//! [`Resource::new`]: crate::resource::Resource::new

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use std::collections::BTreeMap;

pub use crate::virtual_time::Weight;

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
    pub start: Start,
    /// How far ahead a waiting request is committed to a start.
    pub horizon: Span,
    /// What is refused beyond.
    pub bounds: Bounds,
    /// Between whom a class is shared; first come, first served where this is left out.
    pub fair_share: Option<FairShare>,
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
            start: Start::Full,
            horizon: DEFAULT_HORIZON,
            bounds: Bounds::default(),
            fair_share: None,
        }
    }
}

/// Shares what each class gets between clients, by their dominant shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairShare {
    /// The label whose value names a request's client.
    pub label: String,
    /// Clients that get more or less than others; a client that is not named has a weight of one.
    pub weights: BTreeMap<String, Weight>,
}

/// Round trip and jitter: a permit must reach its worker before its start.
pub const DEFAULT_HORIZON: Span = Span::from_millis(50);

/// One token-bucket limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSpec {
    /// Its name, unique in the resource.
    pub name: Name,
    /// The unit of cost that it counts.
    pub unit: Name,
    /// What a full bucket of the upstream holds.
    pub capacity: Amount,
    /// In which time an empty bucket fills.
    pub period: Span,
    /// Stock held back against jitter.
    pub margin: Margin,
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
    /// How long its oldest request waits before it goes ahead of everybody.
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
pub enum Start {
    /// As an upstream's that nobody has used.
    #[default]
    Full,
    /// As an upstream's that somebody has just used up.
    Empty,
}

/// What is refused beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Requests that wait at once. Beyond this, workers wait at home.
    pub max_waiting: usize,
    /// Permits that are remembered at once, about 100 bytes each: enough for 66 000 permits per
    /// second during the minute for which an id must be known.
    pub max_permits: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { max_waiting: 100_000, max_permits: 4_000_000 }
    }
}

/// What is wrong with a resource, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct SpecError {
    /// The part at fault.
    pub place: Place,
    /// What would be right.
    pub reason: String,
}

/// A part of a resource's specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A field of the resource itself.
    Resource(&'static str),
    /// A field of the limit with this index.
    Limit(usize, &'static str),
    /// A field of the class with this index.
    Class(usize, &'static str),
}
