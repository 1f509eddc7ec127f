//! One policy of a resource.

use super::algorithm::{Algorithm, Counting};
use super::spec::{Learn, LimitSpec, Margin};
use crate::arithmetic::{Credit, Draw, Rate};
use crate::ids::Tier;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

/// Buckets of keys whose period is shorter fill again after a crash.
const LONG: Span = Span::from_secs(600);
/// However little an upstream seems to hold, a bucket keeps one part in this many.
const LEAST_BURST_PART: u64 = 4;

/// Of windows that are shorter than a few times [`LATENESS`], starts stay away from the ends by one part in this many.
const GUARD_PART: u64 = 10;

/// A limit's policy, ready for arithmetic.
///
/// All levels of its buckets lie `margin` below the upstream's, so that zero is the least that
/// may be left and a full bucket holds `capacity - margin`.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    spec: Arc<LimitSpec>,
    margin: Amount,
    rate: Rate,
    full: Credit,
    headrooms: Vec<Credit>,
    counting: Counting,
    unix_at_origin: u64,
}

impl Limit {
    /// The limit of a valid `spec`, in a resource whose tiers have these headrooms, in millionths
    /// of the capacity.
    pub(crate) fn new(spec: &LimitSpec, headroom_ppm: &[u32]) -> Self {
        let rate = Rate::new(spec.capacity, spec.period);
        let guard = match spec.margin {
            Margin::Fixed(Amount::ZERO) => Span::ZERO,
            Margin::Auto | Margin::Fixed(_) => LATENESS.min(Span::from_nanos(spec.period.nanos() / GUARD_PART)),
        };
        let counting = Counting::new(&spec.algorithm, spec.period, guard);
        let margin = match spec.margin {
            Margin::Auto if !counting.is_tokens() => Amount::ZERO,
            Margin::Auto => auto_margin(spec.capacity, spec.period),
            Margin::Fixed(margin) => margin,
        };
        Limit {
            spec: Arc::new(spec.clone()),
            margin,
            rate,
            full: rate.credit(spec.capacity) - rate.credit(margin),
            headrooms: headroom_ppm.iter().map(|ppm| rate.credit(share(spec.capacity, *ppm))).collect(),
            counting,
            unix_at_origin: 0,
        }
    }

    /// The same limit, as the upstream turns out to keep it: it refills slower, by [so many steps](crate::limits::credit::Rate), and
    /// of what a full bucket holds `short` is not there.
    pub(crate) fn adapted(&self, slower: u16, short: Credit) -> Self {
        let full = (self.full - short).max(self.full.part(LEAST_BURST_PART));
        Limit { rate: self.rate.slowed(slower), full, ..self.clone() }
    }

    /// What it was made from.
    #[must_use]
    pub fn spec(&self) -> &LimitSpec {
        &self.spec
    }

    /// The stock that is held back against jitter.
    #[must_use]
    pub fn margin(&self) -> Amount {
        self.margin
    }

    /// How fast its buckets refill.
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

    /// Whether checkpoints list its keys one by one: to wait until all of them are full again, as after a crash, would take too long.
    pub(crate) fn lists_keys(&self) -> bool {
        self.is_keyed() && !self.is_until_settled() && self.is_long()
    }

    /// Whether a bucket that is taken for empty is not full again soon.
    pub(crate) fn is_long(&self) -> bool {
        self.is_quota() || self.spec.period >= LONG
    }

    /// The same where the wall clock showed this at the origin of time, in nanoseconds since 1970.
    pub(crate) fn at_unix(self, unix_at_origin: u64) -> Self {
        Limit { counting: self.counting.at_unix(unix_at_origin), unix_at_origin, ..self }
    }

    /// What the wall clock showed at the origin of time.
    pub(crate) fn unix_at_origin(&self) -> u64 {
        self.unix_at_origin
    }

    /// What its buckets are.
    pub(crate) fn counting(&self) -> &Counting {
        &self.counting
    }

    /// Whether its buckets hold tokens.
    pub(crate) fn has_tokens(&self) -> bool {
        self.counting.is_tokens()
    }

    /// Whether calls take up room until they are settled.
    pub(crate) fn is_until_settled(&self) -> bool {
        self.counting.is_until_settled()
    }

    /// Whether what it gives out is for some time, and what is left then is gone.
    pub(crate) fn is_windowed(&self) -> bool {
        !self.has_tokens() && !self.is_until_settled()
    }

    /// Whether nobody waits for it once it is used up.
    pub(crate) fn is_quota(&self) -> bool {
        matches!(self.spec.algorithm, Algorithm::Quota(_))
    }

    /// When whatever starts at `time` counts no more at the latest; none where tokens come in all the time.
    pub(crate) fn release(&self, time: Time) -> Option<Time> {
        self.counting.release(time)
    }

    /// How much longer calls count under `other`, where both are sliding windows.
    pub(crate) fn counts_longer_as(&self, other: &Limit) -> Option<Span> {
        self.counting.counts_longer_as(&other.counting)
    }

    /// When a bucket with this level at `now` is above zero, or was empty to have refilled since.
    pub(crate) fn empty_at(&self, now: Time, level: Credit) -> Time {
        let refill = |credit| self.rate.time_to_refill(credit).since(Time::ORIGIN);
        let empty = if level <= Credit::ZERO { now + refill(-level) } else { now - refill(level) };
        empty + Span::from_nanos(1)
    }

    /// What a call takes.
    pub(crate) fn draw(&self, amount: Amount, tier: Tier) -> Draw {
        Draw { cost: self.rate.credit(amount), tier }
    }

    /// The least rate that it is taken to have, in millionths of the nominal one; none where nothing is to be learned.
    pub(crate) fn floor(&self) -> Option<u32> {
        let Learn::Above(share) = self.spec.learn else { return None };
        // What is learned is a rate; limits that count something else than tokens have none.
        self.has_tokens().then(|| parts_per_million(share))
    }

    /// How many tiers there are.
    pub(crate) fn tiers(&self) -> usize {
        self.headrooms.len()
    }

    /// What a start of `tier` leaves.
    pub(crate) fn headroom(&self, tier: Tier) -> Credit {
        self.headrooms[usize::from(tier)]
    }

    /// The level at which a start of `tier` may take `cost`: it leaves the tier's headroom.
    /// What could not even be taken from a full bucket that way may be taken from a full bucket.
    pub(crate) fn demand(&self, cost: Credit, tier: Tier) -> Credit {
        (cost + self.headrooms[usize::from(tier)]).min(self.full)
    }

    /// The level that a committed start of tier `own` still needs before it when another, of tier
    /// `other`, is put ahead of it: nobody is made to leave more than either has to.
    pub(crate) fn demand_beside(&self, cost: Credit, own: Tier, other: Tier) -> Credit {
        self.demand(cost, own.min(other))
    }
}

/// rate × lateness + 1, at most a tenth of the capacity; rounded up.
fn auto_margin(capacity: Amount, period: Span) -> Amount {
    let late = u128::from(capacity.micros()) * u128::from(LATENESS.nanos());
    let stock = late.div_ceil(u128::from(period.nanos())) + u128::from(Amount::ONE.micros());
    let tenth = u128::from(capacity.micros() / 10);
    Amount::from_micros(stock.min(tenth) as u64).expect("a tenth of an amount is an amount")
}

/// Rounded up.
pub(crate) fn parts_per_million(share: f64) -> u32 {
    (share * 1e6).ceil() as u32
}

fn share(capacity: Amount, ppm: u32) -> Amount {
    let share = (u128::from(capacity.micros()) * u128::from(ppm)).div_ceil(1_000_000);
    Amount::from_micros(share as u64).expect("a share of an amount is an amount")
}
