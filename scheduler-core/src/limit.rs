//! One policy of a resource.

use crate::credit::{Credit, Rate};
use crate::spec::{LimitSpec, Margin};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;

/// How much later than committed a call may reach the upstream, for `margin = "auto"`.
pub const LATENESS: Span = Span::from_millis(50);

/// Which headroom a start has to leave: an index into the resource's distinct headrooms, the
/// smallest first. Tier 0 leaves none.
pub type Tier = u8;

/// A token bucket's policy, ready for arithmetic.
///
/// All levels of its buckets lie `margin` below the upstream's, so that zero is the least that
/// may be left and a full bucket holds `capacity - margin`.
#[derive(Clone, Debug)]
pub struct Limit {
    name: Name,
    unit: Name,
    capacity: Amount,
    period: Span,
    margin: Amount,
    rate: Rate,
    full: Credit,
    headrooms: Vec<Credit>,
}

impl Limit {
    /// The limit of a valid `spec`, in a resource whose tiers have these headrooms, in millionths
    /// of the capacity.
    pub(crate) fn new(spec: &LimitSpec, headroom_ppm: &[u32]) -> Self {
        let rate = Rate::new(spec.capacity, spec.period);
        let margin = match spec.margin {
            Margin::Auto => auto_margin(spec.capacity, spec.period),
            Margin::Fixed(margin) => margin,
        };
        Limit {
            name: spec.name.clone(),
            unit: spec.unit.clone(),
            capacity: spec.capacity,
            period: spec.period,
            margin,
            rate,
            full: rate.credit(spec.capacity) - rate.credit(margin),
            headrooms: headroom_ppm.iter().map(|ppm| rate.credit(share(spec.capacity, *ppm))).collect(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// What it counts.
    #[must_use]
    pub fn unit(&self) -> &Name {
        &self.unit
    }

    /// What the upstream's full bucket holds.
    #[must_use]
    pub fn capacity(&self) -> Amount {
        self.capacity
    }

    /// In which time an empty bucket fills.
    #[must_use]
    pub fn period(&self) -> Span {
        self.period
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

    /// How many tiers there are.
    pub(crate) fn tiers(&self) -> usize {
        self.headrooms.len()
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

fn share(capacity: Amount, ppm: u32) -> Amount {
    let share = (u128::from(capacity.micros()) * u128::from(ppm)).div_ceil(1_000_000);
    Amount::from_micros(share as u64).expect("a share of an amount is an amount")
}
