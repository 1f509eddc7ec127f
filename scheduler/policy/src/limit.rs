//! A validated limit, ready for arithmetic, and the three ways of counting behind the algorithms.
//!
//! A new algorithm is a variant of [`Algorithm`], and of `Counting` if no present variant fits.

use super::spec::{Algorithm, Learn, LimitSpec, Margin};
use crate::arithmetic::{Alignment, Credit, Rate, StartCost, WindowAlignment};
use crate::ids::Tier;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;
use std::sync::Arc;

/// After a crash, keys of limits with shorter periods start empty and refill soon.
const LONG_PERIOD: Span = Span::from_secs(600);
/// A limit with a shorter period refills before a forecast of its end is of use.
const FORECAST_PERIOD: Span = Span::from_secs(3600);
/// A learned bucket holds at least the nominal full bucket divided by this.
const MIN_BURST_PART: u64 = 4;

/// A quota of fewer units than these is scarce.
const SCARCE: u64 = 1000;

/// Starts avoid a window's ends by the jitter, but at most by one part in this many of the window.
const GUARD_PART: u64 = 10;

/// Clocks drift, and upstreams count coarsely, by the jitter divided by this. Workers know a delay for
/// up to a minute, in which clocks drift by a few milliseconds.
const DRIFT_PART: u64 = 5;

/// The kind of a limit's buckets.
#[derive(Clone, Debug, PartialEq)]
pub enum Counting {
    /// Tokens that are refilled steadily.
    Tokens,
    /// Windows of time, each with its own capacity.
    Windows(WindowAlignment),
    /// Room that calls take up for this time or, if `until_settled`, until settled if sooner; those can be renewed.
    Occupied {
        /// The longest time for which a call takes up room.
        length: Span,
        /// Whether its settle ends that.
        until_settled: bool,
    },
}

impl Counting {
    /// Returns how `algorithm` counts. Starts stay `guard` away from ends of windows, `jitter` if these are reported.
    fn new(algorithm: &Algorithm, period: Span, guard: Span, jitter: Span) -> Self {
        // A sliding window bounds every window that begins with its first call.
        let sliding = Counting::Occupied { length: period + jitter, until_settled: false };
        let windows =
            |alignment| Counting::Windows(WindowAlignment { alignment, length: period, guard, reported_guard: jitter });
        match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Counting::Tokens,
            Algorithm::SlidingWindow
            | Algorithm::FixedWindow(Alignment::FirstUse)
            | Algorithm::Quota(Some(Alignment::FirstUse)) => sliding,
            Algorithm::FixedWindow(alignment) => windows(Some(alignment.clone())),
            Algorithm::Quota(alignment) => windows(alignment.clone()),
            Algorithm::Concurrency => Counting::Occupied { length: period, until_settled: true },
        }
    }
}

/// A limit's policy, ready for arithmetic. Levels of its buckets lie `margin` below the upstream's, so a start may use
/// the whole level, and a full bucket holds `capacity - margin`.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    spec: Arc<LimitSpec>,
    margin: Amount,
    rate: Rate,
    full: Credit,
    headrooms: Vec<Credit>,
    counting: Counting,
    /// The wall clock that its windows follow.
    pub wall_clock: WallClockOrigin,
}

impl Limit {
    /// Creates the limit of a valid `spec`. Each tier's headroom is in millionths of the capacity.
    #[must_use]
    pub fn new(spec: &LimitSpec, headroom_ppm: &[u32]) -> Self {
        let rate = Rate::new(spec.capacity, spec.period);
        let guard = |least: Span| match spec.margin {
            Margin::Fixed(Amount::ZERO) => Span::ZERO,
            Margin::Auto | Margin::Fixed(_) => guard(spec.period, spec.jitter.max(least)),
        };
        // Clocks differ, too, unless the upstream reports when its windows end.
        let counting = Counting::new(&spec.algorithm, spec.period, guard(LATENESS), guard(Span::ZERO));
        let margin = match spec.margin {
            Margin::Auto if counting != Counting::Tokens => Amount::ZERO,
            Margin::Auto => auto_margin(spec.capacity, spec.period, spec.jitter),
            Margin::Fixed(margin) => margin,
        };
        Limit {
            spec: Arc::new(spec.clone()),
            margin,
            rate,
            full: rate.credit(spec.capacity) - rate.credit(margin),
            headrooms: headroom_ppm.iter().map(|ppm| rate.credit(share(spec.capacity, *ppm))).collect(),
            counting,
            wall_clock: WallClockOrigin::UNIX_EPOCH,
        }
    }

    /// Lowers the rate by `slower` [steps](crate::arithmetic::STEPS), and a full bucket by `short`.
    #[must_use]
    pub fn adapted(&self, slower: u16, short: Credit) -> Self {
        let full = (self.full - short).max(self.full.divided_by(MIN_BURST_PART));
        Limit { rate: self.rate.slowed(slower), full, ..self.clone() }
    }

    /// Caps the full level at `capacity` less the margin, or at half of `capacity` if that is more.
    #[must_use]
    pub fn holding_at_most(self, capacity: Amount) -> Self {
        let most = self.rate.credit(capacity);
        let full = self.full.min((most - self.rate.credit(self.margin)).max(most.divided_by(2)));
        Limit { full, ..self }
    }

    /// Returns the specification.
    #[must_use]
    pub fn spec(&self) -> &LimitSpec {
        &self.spec
    }

    /// Returns the stock that is held back against jitter.
    #[must_use]
    pub fn margin(&self) -> Amount {
        self.margin
    }

    /// Returns the refill rate of its buckets.
    #[must_use]
    pub fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Returns the level of a full bucket.
    #[must_use]
    pub fn full(&self) -> Credit {
        self.full
    }

    /// Returns whether each key has a bucket of its own.
    #[must_use]
    pub fn is_keyed(&self) -> bool {
        self.spec.applies.is_keyed()
    }

    /// Returns whether checkpoints list its keys. Other limits' keys start empty after a crash.
    #[must_use]
    pub fn lists_keys(&self) -> bool {
        self.is_keyed() && (self.counts_calls_in_flight() || self.has_long_period())
    }

    /// Returns whether an empty bucket stays below full for a long time.
    #[must_use]
    pub fn has_long_period(&self) -> bool {
        self.is_quota() || self.spec.period >= LONG_PERIOD
    }

    /// Returns whether its end is forecast: for quotas and periods of an hour or more, without keys or calls in flight.
    #[must_use]
    pub fn has_forecast(&self) -> bool {
        let is_long = self.is_quota() || self.spec.period >= FORECAST_PERIOD;
        is_long && !self.is_keyed() && !self.counts_calls_in_flight()
    }

    /// Extends the limit to the calls that `other` applies to, which differs in nothing else.
    pub fn widen(&mut self, other: &Limit) {
        self.spec = Arc::clone(&other.spec);
    }

    /// Makes the limit follow another wall clock.
    #[must_use]
    pub fn with_wall_clock(self, wall_clock: WallClockOrigin) -> Self {
        Limit { wall_clock, ..self }
    }

    /// Returns the wall time at `time`, in nanoseconds since 1970. Saturates in 2554.
    #[must_use]
    pub fn unix_nanos(&self, time: Time) -> u64 {
        u64::try_from(self.wall_clock.unix_nanos(time)).unwrap_or(u64::MAX)
    }

    /// Returns the kind of its buckets.
    #[must_use]
    pub fn counting(&self) -> &Counting {
        &self.counting
    }

    /// Returns whether its buckets refill steadily.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        self.counting == Counting::Tokens
    }

    /// Returns whether calls take up room until they are settled.
    #[must_use]
    pub fn counts_calls_in_flight(&self) -> bool {
        matches!(self.counting, Counting::Occupied { until_settled: true, .. })
    }

    /// Returns how time is cut into windows, if it is.
    #[must_use]
    pub fn alignment(&self) -> Option<&WindowAlignment> {
        match &self.counting {
            Counting::Windows(alignment) => Some(alignment),
            Counting::Tokens | Counting::Occupied { .. } => None,
        }
    }

    /// Returns whether a request that does not fit is refused, unless settles of calls in flight may make room.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        matches!(self.spec.algorithm, Algorithm::Quota(_))
    }

    /// Returns whether it is a quota of few units that are no requests, such as dollars. A call takes a small part of
    /// one, so that a crash may not cost a whole one.
    #[must_use]
    pub fn is_scarce(&self) -> bool {
        self.is_quota() && *self.spec.unit != *REQUESTS && self.spec.capacity.micros() < SCARCE * Amount::ONE.micros()
    }

    /// Returns until when a call that starts at `time` counts at most; `None` for tokens.
    #[must_use]
    pub fn counts_until(&self, time: Time) -> Option<Time> {
        match &self.counting {
            Counting::Tokens => None,
            Counting::Windows(alignment) => Some(alignment.window(self.wall_clock, time).ends),
            Counting::Occupied { length, .. } => Some(time + *length),
        }
    }

    /// Returns when a call that the upstream answered by `answered` stops counting at the latest. It was counted by
    /// then, so only a fifth of the jitter is left, for clocks that drift. `None` unless this is a sliding window.
    #[must_use]
    pub fn counts_until_if_answered(&self, answered: Time) -> Option<Time> {
        match &self.counting {
            Counting::Occupied { length, until_settled: false } => {
                let jitter = length.saturating_sub(self.spec.period);
                Some(answered + self.spec.period + Span::from_nanos(jitter.nanos() / DRIFT_PART))
            }
            Counting::Occupied { .. } | Counting::Tokens | Counting::Windows(_) => None,
        }
    }

    /// Returns how much longer calls count under `other`, if both limits are sliding windows.
    #[must_use]
    pub fn counts_longer_as(&self, other: &Limit) -> Option<Span> {
        match (&self.counting, &other.counting) {
            (Counting::Occupied { length, until_settled: false }, Counting::Occupied { length: longer, .. }) => {
                // Answered calls count for the period alone.
                let period = other.spec.period.saturating_sub(self.spec.period);
                Some(longer.saturating_sub(*length).max(period)).filter(|more| *more > Span::ZERO)
            }
            (Counting::Tokens | Counting::Windows(_) | Counting::Occupied { .. }, _) => None,
        }
    }

    /// Returns the nanosecond after a steadily refilled bucket, at `level` now, is at zero: past for a positive level.
    #[must_use]
    pub fn empty_at(&self, now: Time, level: Credit) -> Time {
        let refill = |credit| self.rate.refill_span(credit);
        let empty = if level <= Credit::ZERO { now + refill(-level) } else { now - refill(level) };
        empty + Span::from_nanos(1)
    }

    /// Returns what a start of `tier` takes that costs `amount`.
    #[must_use]
    pub fn start_cost(&self, amount: Amount, tier: Tier) -> StartCost {
        StartCost { credit: self.rate.credit(amount), tier }
    }

    /// Returns the lowest rate to assume, in millionths; `None` if the limit never learns a rate.
    #[must_use]
    pub fn floor(&self) -> Option<u32> {
        let Learn::Above(share) = self.spec.learn else { return None };
        // Learning estimates a rate, and only token buckets have one.
        self.has_tokens().then(|| parts_per_million(share))
    }

    /// Returns the number of tiers.
    #[must_use]
    pub fn tiers(&self) -> usize {
        self.headrooms.len()
    }

    /// Returns what a start of `tier` has to leave.
    #[must_use]
    pub fn headroom(&self, tier: Tier) -> Credit {
        self.headrooms[tier.index()]
    }

    /// Returns the level at which `tier` may take `cost` and leave its headroom; that of a full bucket if none does.
    #[must_use]
    pub fn demand(&self, cost: Credit, tier: Tier) -> Credit {
        (cost + self.headrooms[tier.index()]).min(self.full)
    }
}

fn guard(period: Span, jitter: Span) -> Span {
    jitter.min(Span::from_nanos(period.nanos() / GUARD_PART))
}

/// Returns rate × jitter + 1 token, at most a tenth of the capacity; rounded up.
fn auto_margin(capacity: Amount, period: Span, jitter: Span) -> Amount {
    let late = u128::from(capacity.micros()) * u128::from(jitter.nanos());
    let stock = late.div_ceil(u128::from(period.nanos())) + u128::from(Amount::ONE.micros());
    let tenth = u128::from(capacity.micros() / 10);
    Amount::from_micros(stock.min(tenth) as u64).expect("a tenth of an amount is an amount")
}

pub(crate) fn parts_per_million(share: f64) -> u32 {
    (share * 1e6).ceil() as u32
}

fn share(capacity: Amount, ppm: u32) -> Amount {
    let share = (u128::from(capacity.micros()) * u128::from(ppm)).div_ceil(1_000_000);
    Amount::from_micros(share as u64).expect("a share of an amount is an amount")
}
