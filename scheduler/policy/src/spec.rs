//! The specification of a resource: plain values for [`Resource::new`](crate::Resource::new).

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

pub use super::applies::{Applies, MAX_KEY_LABELS, Pattern};
pub use crate::arithmetic::Alignment;

/// The largest number of limits of a resource: a set of limits is a word of 64 bits.
pub const MAX_LIMITS: usize = 64;
/// The largest number of classes of a resource; people distinguish a handful.
pub const MAX_CLASSES: usize = 16;
/// The longest period of a limit, as no upstream's quota lasts longer than a year.
pub const MAX_PERIOD: Span = Span::from_secs(366 * 86_400);

/// A resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceSpec {
    /// The name in subjects such as `rampmeter.permit.<resource>`.
    pub name: Name,
    /// Its limits, at least one.
    pub limits: Vec<LimitSpec>,
    /// Its classes, the most urgent first. An empty list means one class, `default`.
    pub classes: Vec<ClassSpec>,
    /// The class of requests that name none; by default the first class.
    pub default_class: Option<Name>,
    /// The level of buckets without any recorded state.
    pub start: StartPolicy,
    /// How far ahead of its start a waiting request is granted.
    pub horizon: Span,
    /// Bounds on the scheduler's memory.
    pub bounds: Bounds,
    /// The budget of each checkpoint, as refill time. A crash costs about as much, or what was granted since if more.
    pub reservation: Span,
    /// How long after its start a permit lapses.
    pub validity: Span,
    /// How far ahead a start may be reserved: if `None`, the longest period of its limits, within [`DEFAULT_AHEAD`].
    pub max_ahead: Option<Span>,
    /// How clients share a class; if `None`, first come, first served.
    pub fair_share: Option<FairShare>,
    /// Labels by whose values use is counted apart, at most [`MAX_USAGE_LABELS`]; if empty, that of `fair_share`.
    pub usage_by: Vec<String>,
    /// Whether limits follow capacities that the upstream states.
    pub follow: Follow,
    /// Which limits are discovered.
    pub discover: Discover,
    /// The label with a call's route. A limit that responses name is then discovered for the routes of its calls only.
    pub discover_route: Option<String>,
    /// Labels by whose values the upstream may count separately.
    pub discover_key: Vec<String>,
    /// The answer to requests that no limit applies to.
    pub unmatched: Unmatched,
    /// The answer to requests whose cost no limit counts.
    pub uncounted: Uncounted,
    /// Labels by which calls are divided into kinds whose costs are learned. If empty, none are.
    pub learn_costs: Vec<String>,
    /// The accounts that serve its calls as a pool; empty if there is one account without a name.
    pub accounts: Vec<AccountSpec>,
}

impl ResourceSpec {
    /// Creates a resource with these limits and default values.
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
            validity: DEFAULT_VALIDITY,
            max_ahead: None,
            fair_share: None,
            usage_by: Vec::new(),
            follow: Follow::default(),
            discover: Discover::default(),
            discover_route: None,
            discover_key: Vec::new(),
            unmatched: Unmatched::Allow,
            uncounted: Uncounted::Refuse,
            learn_costs: Vec::new(),
            accounts: Vec::new(),
        }
    }

    /// Returns whether it has written limits, or discovers all kinds of limits.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        !self.limits.is_empty() || self.discover == Discover::All
    }

    pub(crate) fn classes_or_default(&self) -> Cow<'_, [ClassSpec]> {
        if self.classes.is_empty() {
            return Cow::Owned(vec![ClassSpec::new(Name::new("default").expect("a valid name"))]);
        }
        Cow::Borrowed(&self.classes)
    }
}

/// The bounds of how far ahead starts are reserved by default. The upper one keeps workers from
/// booking a whole day. The lower one covers an ordinary burst on limits with short periods.
pub const DEFAULT_AHEAD: RangeInclusive<Span> = Span::from_secs(60)..=Span::from_secs(3600);

/// Which capacity a limit has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Follow {
    /// The capacity that the upstream's responses state, if that is below the written one.
    #[default]
    Headers,
    /// The written capacity.
    Written,
}

/// Which limits are discovered from responses. The core uses this only to accept units that no limit counts yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discover {
    /// None.
    #[default]
    Nothing,
    /// A cap on calls in flight.
    InFlight,
    /// A cap on calls in flight, limits that responses describe, and a rate.
    All,
}

/// The answer to requests that no limit applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unmatched {
    /// Grants them at once.
    #[default]
    Allow,
    /// Refuses them, so that no unknown request reaches the upstream.
    Refuse,
}

/// The answer to requests without a stated cost, if no limit counts `requests`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Uncounted {
    /// Grants them at once.
    Allow,
    /// Refuses them, because a limit may name its unit `request` by mistake.
    #[default]
    Refuse,
}

/// Labels by which the use of a resource is counted apart: a team, a user, a model, and one more.
pub const MAX_USAGE_LABELS: usize = 4;
/// The most accounts of a resource: a waiting request has a bill for each.
pub const MAX_ACCOUNTS: usize = 16;

/// An account of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountSpec {
    /// Its name, unique in the resource.
    pub name: Name,
    /// Its preference among accounts that can serve a call at once: twice the weight counts like twice the stock.
    pub weight: Weight,
    /// The classes whose calls it serves; empty for all.
    pub classes: Vec<Name>,
}

impl AccountSpec {
    /// Creates an account for all classes, with a weight of one.
    #[must_use]
    pub fn new(name: Name) -> Self {
        AccountSpec { name, weight: Weight::ONE, classes: Vec::new() }
    }
}

/// Shares each class between clients by dominant resource fairness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairShare {
    /// The label whose value names a client.
    pub label: String,
    /// Weights by client; other clients have a weight of one.
    pub weights: BTreeMap<String, Weight>,
}

/// A little longer than the 250 ms between two writes to the store.
pub const DEFAULT_RESERVATION: Span = Span::from_millis(300);
/// The shortest reservation. With less, every permit would wait for the store.
pub const MIN_RESERVATION: Span = Span::from_millis(50);
/// The longest reservation: a crash costs at most about this much refill.
pub const MAX_RESERVATION: Span = Span::from_secs(60);
/// The longest horizon: waiting requests are then granted so early that hardly any binding is late.
pub const MAX_HORIZON: Span = Span::from_secs(60);
/// The highest of the [`Bounds`]: the core counts in 32 bits.
pub const MAX_BOUND: usize = u32::MAX as usize;
/// The shortest validity. With less, a permit would lapse on its way to the worker.
pub const MIN_VALIDITY: Span = Span::from_millis(100);

/// Far longer than beginning a call takes, and too short for unused permits to add up to a burst.
pub const DEFAULT_VALIDITY: Span = Span::from_secs(5);

/// A round trip and its jitter, so that a permit reaches its worker before its start.
pub const DEFAULT_HORIZON: Span = Span::from_millis(50);

/// How a limit counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// A bucket holds `capacity`, and fills within `period`.
    #[default]
    TokenBucket,
    /// A token bucket seen from below: it runs over at `capacity`, drains in `period`, and ignores what does not fit.
    LeakyBucket,
    /// `capacity` in each window. Days and months follow the calendar, whatever the `period`.
    FixedWindow(Alignment),
    /// `capacity` in every stretch of time of length `period`.
    SlidingWindow,
    /// `capacity` in flight: calls hold their cost until settled, or `period` after start or renewal.
    Concurrency,
    /// `capacity` until a reset, if any. While it is spent, requests are refused, not queued.
    Quota(Option<Alignment>),
}

impl Algorithm {
    /// Returns the name in configuration and status.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Algorithm::TokenBucket => "token-bucket",
            Algorithm::LeakyBucket => "leaky-bucket",
            Algorithm::FixedWindow(_) => "fixed-window",
            Algorithm::SlidingWindow => "sliding-window",
            Algorithm::Concurrency => "concurrency",
            Algorithm::Quota(_) => "quota",
        }
    }
}

/// A limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitSpec {
    /// Its name, unique in the resource.
    pub name: Name,
    /// The unit of cost that it counts.
    pub unit: Name,
    /// Its counting algorithm.
    pub algorithm: Algorithm,
    /// The capacity of a full bucket at the upstream.
    pub capacity: Amount,
    /// The time in which an empty bucket fills.
    pub period: Span,
    /// The stock that is held back against jitter.
    pub margin: Margin,
    /// By how much the delays of calls differ. Starts stay as far from the ends of windows.
    pub jitter: Span,
    /// Whether the scheduler learns the upstream's actual rate.
    pub learn: Learn,
    /// The requests that it applies to, and the keys of its buckets.
    pub applies: Applies,
    /// Whether this is a shadow limit, which only measures the delays that it would cause.
    pub shadow: bool,
    /// Whether each account of the resource has a limit like this.
    pub per_account: bool,
}

impl LimitSpec {
    /// Creates a token bucket for every request, with default values.
    #[must_use]
    pub fn new(name: Name, unit: Name, capacity: Amount, period: Span) -> Self {
        let (algorithm, margin, learn, applies) =
            (Algorithm::default(), Margin::Auto, Learn::default(), Applies::default());
        let (jitter, shadow, per_account) = (LATENESS, false, false);
        LimitSpec { name, unit, algorithm, capacity, period, margin, jitter, learn, applies, shadow, per_account }
    }

    /// Returns whether the driver [steers](Learn::Steered) the capacity in force.
    #[must_use]
    pub fn is_steered(&self) -> bool {
        matches!(self.learn, Learn::Steered(_))
    }

    /// Whether `other` is this limit for the same calls, perhaps of another capacity and period.
    pub(crate) fn is_same_for_calls(&self, other: &LimitSpec) -> bool {
        let is_same_call =
            self.unit == other.unit && self.applies == other.applies && self.per_account == other.per_account;
        self.name == other.name && self.algorithm == other.algorithm && is_same_call
    }
}

/// Whether the scheduler learns the rate, burst and stock of the upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Learn {
    /// The policy stays as configured. Observed levels still correct the bucket.
    Never,
    /// The rate never falls below this share of the configured one.
    Above(f64),
    /// The driver steers the capacity in force, which begins with this amount and follows the core's `Event::Capacity`.
    /// Responses never describe such a limit: no reading is about it, a rejection that names another limit does not
    /// blame it, and none corrects its level. As its capacity is an estimate, no cost is too large.
    Steered(Amount),
}

/// The lowest floor. With less, so few calls would start that a recovery would hardly show.
pub const MIN_FLOOR: f64 = 0.01;

/// The default floor of a learned rate.
pub const DEFAULT_FLOOR: f64 = 0.1;

impl Default for Learn {
    fn default() -> Self {
        Learn::Above(DEFAULT_FLOOR)
    }
}

/// The stock that a limit holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// Rate × `jitter` + 1, at most a tenth of the capacity; nothing unless the limit has tokens.
    Auto,
    /// This amount. With zero, nothing covers the jitter of delays.
    Fixed(Amount),
}

/// A class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    /// Its name, unique in the resource.
    pub name: Name,
    /// The share of every limit's capacity that this class leaves for more urgent classes.
    pub headroom: f64,
    /// The oldest request's longest wait before promotion, restarted when the class gets a grant from the same limits.
    pub max_starvation: Option<Span>,
}

impl ClassSpec {
    /// Creates a class without headroom and promotion.
    #[must_use]
    pub fn new(name: Name) -> Self {
        ClassSpec { name, headroom: 0.0, max_starvation: None }
    }
}

/// The level of buckets without any recorded state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartPolicy {
    /// Full, as at an unused upstream.
    #[default]
    Full,
    /// Full, but unproven: waiting requests use it slowly until served calls prove it; immediate ones may use all.
    Unproven,
    /// Empty, as at a fully used upstream.
    Empty,
}

/// The largest number of remembered permits that were returned, about 8 MB, so that no client fills the memory with
/// them. Beyond it, the oldest one is forgotten, and late copies of its request are charged.
pub const MAX_IDLE_PERMITS: usize = 65_536;

/// How long a permit is remembered after its start or its lease's end: long enough for calls that take minutes.
pub const RETENTION: Span = Span::from_secs(300);
/// The shortest time for which an ended permit is remembered, once permits reach their bound.
pub const MIN_RETENTION: Span = Span::from_secs(60);

/// Bounds on the scheduler's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The largest number of waiting requests; beyond it, workers retry later.
    pub max_waiting: usize,
    /// The largest number of remembered permits, about 100 bytes each. An id is known for 300 s after its start, or for
    /// 60 s once this bound is reached. The default suffices for 66 000 a second.
    pub max_permits: usize,
    /// The largest number of keys whose buckets are not full, about 160 bytes each.
    pub max_keys: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { max_waiting: 100_000, max_permits: 4_000_000, max_keys: 1_000_000 }
    }
}

/// A fault of a specification.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct SpecError {
    /// The faulty part.
    pub field: SpecField,
    /// The reason.
    pub reason: String,
}

/// A part of a specification. Its fields have the names of their keys in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecField {
    /// A field of the resource itself.
    Resource(&'static str),
    /// A field of the limit with this index.
    Limit(usize, &'static str),
    /// A field of the class with this index.
    Class(usize, &'static str),
}

/// A client's weight in thousandths; a client of weight 2 gets twice the share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(u32);

impl Weight {
    /// The weight of clients that the configuration does not name.
    pub const ONE: Weight = Weight(1000);

    /// Returns the virtual time that `service` takes: `service` ÷ weight, rounded up.
    #[must_use]
    pub fn weighted(self, service: Span) -> Span {
        let weighted = (u128::from(service.nanos()) * u128::from(Weight::ONE.0)).div_ceil(u128::from(self.0));
        Span::from_nanos(u64::try_from(weighted).unwrap_or(u64::MAX))
    }

    /// Returns `count` × weight, in thousandths.
    #[must_use]
    pub fn weighted_count(self, count: u64) -> u64 {
        count.saturating_mul(self.0.into())
    }

    /// Returns the weight as a factor.
    #[must_use]
    pub fn times(self) -> f64 {
        f64::from(self.0) / 1e3
    }

    /// Returns the nearest weight; `None` outside of 0.001 to a million.
    #[must_use]
    pub fn new(times: f64) -> Option<Self> {
        (0.001..=1e6).contains(&times).then(|| Weight((times * 1e3).round() as u32))
    }
}
