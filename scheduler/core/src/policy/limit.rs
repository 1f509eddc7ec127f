//! A validated limit, ready for arithmetic.

use super::algorithm::{Algorithm, Counting};
use super::spec::{Learn, LimitSpec, Margin};
use crate::arithmetic::{Credit, Rate, StartCost};
use crate::ids::Tier;
use rampmeter_protocol::amount::Amount;
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

/// Starts avoid a window's ends by the jitter, or by the window's length divided by this if that is
/// less.
const GUARD_PART: u64 = 10;

/// A limit's policy, ready for arithmetic.
///
/// Levels of its buckets lie `margin` below the upstream's. So a start may use the whole level, and
/// a full bucket holds `capacity - margin`.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    spec: Arc<LimitSpec>,
    margin: Amount,
    rate: Rate,
    full: Credit,
    headrooms: Vec<Credit>,
    counting: Counting,
    wall_clock: WallClockOrigin,
}

impl Limit {
    /// The limit of a valid `spec`, with the headroom of each tier in millionths of the capacity.
    pub(crate) fn new(spec: &LimitSpec, headroom_ppm: &[u32]) -> Self {
        let rate = Rate::new(spec.capacity, spec.period);
        let guard = |least: Span| match spec.margin {
            Margin::Fixed(Amount::ZERO) => Span::ZERO,
            Margin::Auto | Margin::Fixed(_) => guard(spec.period, spec.jitter.max(least)),
        };
        // Clocks differ, too, unless the upstream reports when its windows end.
        let counting = Counting::new(&spec.algorithm, spec.period, guard(LATENESS), guard(Span::ZERO));
        let margin = match spec.margin {
            Margin::Auto if !counting.is_tokens() => Amount::ZERO,
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

    /// This limit with a rate that is `slower` [steps](crate::arithmetic::STEPS) lower, and with a
    /// full bucket that holds `short` less.
    pub(crate) fn adapted(&self, slower: u16, short: Credit) -> Self {
        let full = (self.full - short).max(self.full.divided_by(MIN_BURST_PART));
        Limit { rate: self.rate.slowed(slower), full, ..self.clone() }
    }

    /// This limit with its full level capped at `capacity` less the margin, or at half of
    /// `capacity` if that is more.
    pub(crate) fn holding_at_most(self, capacity: Amount) -> Self {
        let most = self.rate.credit(capacity);
        let full = self.full.min((most - self.rate.credit(self.margin)).max(most.divided_by(2)));
        Limit { full, ..self }
    }

    /// The specification.
    #[must_use]
    pub fn spec(&self) -> &LimitSpec {
        &self.spec
    }

    /// The stock that is held back against jitter.
    #[must_use]
    pub fn margin(&self) -> Amount {
        self.margin
    }

    /// The refill rate of its buckets.
    #[must_use]
    pub fn rate(&self) -> &Rate {
        &self.rate
    }

    /// The level of a full bucket.
    #[must_use]
    pub fn full(&self) -> Credit {
        self.full
    }

    /// Whether each key has a bucket of its own.
    #[must_use]
    pub fn is_keyed(&self) -> bool {
        self.spec.applies.is_keyed()
    }

    /// Whether checkpoints list its keys. Other limits' keys start empty after a crash.
    pub(crate) fn lists_keys(&self) -> bool {
        self.is_keyed() && (self.counts_calls_in_flight() || self.has_long_period())
    }

    /// Whether an empty bucket stays below full for a long time.
    pub(crate) fn has_long_period(&self) -> bool {
        self.is_quota() || self.spec.period >= LONG_PERIOD
    }

    /// Whether forecasts tell when this limit is used up. They do for quotas and for limits of an
    /// hour or longer, unless these have keys or count calls in flight.
    pub(crate) fn has_forecast(&self) -> bool {
        let is_long = self.is_quota() || self.spec.period >= FORECAST_PERIOD;
        is_long && !self.is_keyed() && !self.counts_calls_in_flight()
    }

    /// Applies to the calls that `other` applies to, which differs in nothing else.
    pub(crate) fn widen(&mut self, other: &Limit) {
        self.spec = Arc::clone(&other.spec);
    }

    /// This limit by another wall clock.
    pub(crate) fn with_wall_clock(self, wall_clock: WallClockOrigin) -> Self {
        Limit { counting: self.counting.with_wall_clock(wall_clock), wall_clock, ..self }
    }

    /// The wall time at `time`, in nanoseconds since 1970. Saturates in 2554.
    pub(crate) fn unix_nanos(&self, time: Time) -> u64 {
        u64::try_from(self.wall_clock.unix_nanos(time)).unwrap_or(u64::MAX)
    }

    pub(crate) fn counting(&self) -> &Counting {
        &self.counting
    }

    pub(crate) fn has_tokens(&self) -> bool {
        self.counting.is_tokens()
    }

    pub(crate) fn counts_calls_in_flight(&self) -> bool {
        self.counting.counts_calls_in_flight()
    }

    /// Whether time is cut into windows.
    pub(crate) fn has_windows(&self) -> bool {
        self.counting.alignment().is_some()
    }

    /// Whether unused capacity is lost at the end of a window.
    pub(crate) fn loses_unused(&self) -> bool {
        !self.has_tokens() && !self.counts_calls_in_flight()
    }

    /// Whether a request is refused, not queued, once the limit is used up.
    pub(crate) fn is_quota(&self) -> bool {
        matches!(self.spec.algorithm, Algorithm::Quota(_))
    }

    /// The latest time at which a call that starts at `time` stops counting; none for tokens.
    pub(crate) fn counts_until(&self, time: Time) -> Option<Time> {
        self.counting.counts_until(time)
    }

    /// How much longer calls count under `other`, if both limits are sliding windows.
    pub(crate) fn counts_longer_as(&self, other: &Limit) -> Option<Span> {
        self.counting.counts_longer_as(&other.counting)
    }

    /// The nanosecond after a steadily refilled bucket is at level zero, if its level is `level` at
    /// `now`. This lies in the past for a positive level.
    pub(crate) fn empty_at(&self, now: Time, level: Credit) -> Time {
        let refill = |credit| self.rate.refill_span(credit);
        let empty = if level <= Credit::ZERO { now + refill(-level) } else { now - refill(level) };
        empty + Span::from_nanos(1)
    }

    pub(crate) fn start_cost(&self, amount: Amount, tier: Tier) -> StartCost {
        StartCost { credit: self.rate.credit(amount), tier }
    }

    /// The lowest rate to assume, in millionths of the nominal rate; none if the limit never
    /// learns.
    pub(crate) fn floor(&self) -> Option<u32> {
        let Learn::Above(share) = self.spec.learn else { return None };
        // Learning estimates a rate, and only token buckets have one.
        self.has_tokens().then(|| parts_per_million(share))
    }

    pub(crate) fn tiers(&self) -> usize {
        self.headrooms.len()
    }

    pub(crate) fn headroom(&self, tier: Tier) -> Credit {
        self.headrooms[tier.index()]
    }

    /// The level at which a start of `tier` may take `cost`, with the tier's headroom left. A cost
    /// that never leaves the headroom needs a full bucket.
    pub(crate) fn demand(&self, cost: Credit, tier: Tier) -> Credit {
        (cost + self.headrooms[tier.index()]).min(self.full)
    }

    /// The level that a promised start of tier `own` needs if a new start of tier `other` goes
    /// ahead of it. The lower headroom of both tiers counts.
    pub(crate) fn demand_beside(&self, cost: Credit, own: Tier, other: Tier) -> Credit {
        self.demand(cost, own.min(other))
    }
}

/// How far starts stay from the ends of a window.
fn guard(period: Span, jitter: Span) -> Span {
    jitter.min(Span::from_nanos(period.nanos() / GUARD_PART))
}

/// Rate × jitter + 1 token, at most a tenth of the capacity; rounded up.
fn auto_margin(capacity: Amount, period: Span, jitter: Span) -> Amount {
    let late = u128::from(capacity.micros()) * u128::from(jitter.nanos());
    let stock = late.div_ceil(u128::from(period.nanos())) + u128::from(Amount::ONE.micros());
    let tenth = u128::from(capacity.micros() / 10);
    Amount::from_micros(stock.min(tenth) as u64).expect("a tenth of an amount is an amount")
}

/// A share in millionths, rounded up.
pub(crate) fn parts_per_million(share: f64) -> u32 {
    (share * 1e6).ceil() as u32
}

fn share(capacity: Amount, ppm: u32) -> Amount {
    let share = (u128::from(capacity.micros()) * u128::from(ppm)).div_ceil(1_000_000);
    Amount::from_micros(share as u64).expect("a share of an amount is an amount")
}
