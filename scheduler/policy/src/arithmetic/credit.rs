//! Exact arithmetic of a token bucket.

use crate::ids::Tier;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

/// An amount of one bucket, in parts whose size its [`Rate`] chooses. A nanosecond refills a whole number of parts, and
/// a millionth of a unit is a whole number of parts. Only the time at which a bucket can pay is ever rounded, upwards.
///
/// Credits of different rates must not be mixed. Only a rate and the slower rates that are made
/// from it share a unit. No sum overflows 128 bits, because of these bounds:
///
/// | what | bound | log₂ |
/// |---|---|---|
/// | millionths of an amount | 10⁹ units | 49.9 |
/// | credit of a millionth | a period of 366 days in nanoseconds × `STEPS` | 64.9 |
/// | a full bucket, a cost, a headroom | the two above | 114.8 |
/// | a level that is reported or corrected | `Credit::FLOOR` below zero | 116 |
/// | refill until the end of time | 2⁶⁴ ns × millionths × `STEPS` | 123.9 |
/// | all promises of one bucket, which it has to pay | that refill, and a full bucket | 123.9 |
/// | a potential: a level less that refill and those promises | | 125 |
/// | the demand of 100 000 requests, the cost of 4 000 000 calls | 2²² costs: saturates | 125 |
/// | what is owed: a backlog, a cost, and a level below zero | | 126 |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credit(i128);

impl Credit {
    /// No credit.
    pub const ZERO: Credit = Credit(0);
    /// More than any level or potential; sums with these stay in range.
    pub const INFINITE: Credit = Credit(1 << 125);
    /// Less than any level or potential.
    pub const MINUS_INFINITE: Credit = Credit(-(1 << 125));
    /// The lowest level that debits can reach; corrections below it are not remembered.
    pub const FLOOR: Credit = Credit(-(1 << 116));

    /// Returns the sum, clamped to ±[`Credit::INFINITE`], a thousand times what any bucket holds.
    #[must_use]
    pub fn saturating_add(self, other: Credit) -> Credit {
        Credit(self.0 + other.0).min(Credit::INFINITE).max(Credit::MINUS_INFINITE)
    }

    /// Returns one of `parts` equal parts, rounded down.
    #[must_use]
    pub fn divided_by(self, parts: u64) -> Credit {
        Credit(self.0.div_euclid(i128::from(parts)))
    }

    /// Returns `count` times this credit. Saturates.
    #[must_use]
    pub fn times(self, count: u64) -> Credit {
        Credit(self.0.saturating_mul(i128::from(count)))
    }

    /// Divides by `each`, which is above zero, rounding up. Negative credit gives zero.
    #[must_use]
    pub fn div_ceil(self, each: Credit) -> u64 {
        let times = (self.0.max(0) + each.0 - 1) / each.0.max(1);
        u64::try_from(times).unwrap_or(u64::MAX)
    }

    /// Returns `span` × this credit ÷ `whole`, rounded down. `whole` is positive and at least this.
    #[must_use]
    pub fn share_of(self, whole: Credit, span: Span) -> Span {
        const FRACTION_BITS: u32 = 30;
        const COARSE: u32 = 40;
        let (part, whole) = match whole.0 >> (120 - FRACTION_BITS) {
            0 => (self.0.max(0), whole.0.max(1)),
            _ => (self.0.max(0) >> COARSE, (whole.0 >> COARSE) + 1),
        };
        let share = ((part << FRACTION_BITS) / whole) as u128;
        Span::from_nanos(((u128::from(span.nanos()) * share) >> FRACTION_BITS) as u64)
    }

    /// Returns this credit in millionths of `whole`, which is above zero: above the exact share, by one at most.
    #[must_use]
    pub fn ppm_of(self, whole: Credit) -> u64 {
        let share = self.0.max(0).saturating_mul(1_000_000) / whole.0.max(1);
        u64::try_from(share).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl Add for Credit {
    type Output = Credit;

    fn add(self, other: Credit) -> Credit {
        Credit(self.0 + other.0)
    }
}

impl Sub for Credit {
    type Output = Credit;

    fn sub(self, other: Credit) -> Credit {
        Credit(self.0 - other.0)
    }
}

impl Neg for Credit {
    type Output = Credit;

    fn neg(self) -> Credit {
        Credit(-self.0)
    }
}

impl AddAssign for Credit {
    fn add_assign(&mut self, other: Credit) {
        *self = *self + other;
    }
}

impl SubAssign for Credit {
    fn sub_assign(&mut self, other: Credit) {
        *self = *self - other;
    }
}

/// The amount that a start takes from a bucket, and the tier of the start.
#[derive(Clone, Copy, Debug)]
pub struct StartCost {
    /// The amount.
    pub credit: Credit,
    /// The headroom that the start has to leave.
    pub tier: Tier,
}

/// The charge of a call, and its actual cost.
#[derive(Clone, Copy, Debug)]
pub struct Correction {
    /// The charge.
    pub charged: Credit,
    /// The actual cost.
    pub actual: Credit,
}

/// The number of equal steps by which [`Rate::slowed`] divides a rate.
pub const STEPS: u16 = 1024;

/// The refill of a bucket: its capacity within its period, as a reduced fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Credit per nanosecond.
    per_nano: i128,
    /// Credit per millionth of a unit.
    per_micro: i128,
}

impl Rate {
    /// Creates the rate that refills `capacity` within `period`. Panics if either is zero.
    #[must_use]
    pub fn new(capacity: Amount, period: Span) -> Self {
        let (micros, nanos) = (capacity.micros(), period.nanos());
        assert!(micros > 0 && nanos > 0, "a limit's capacity and period are above zero");
        let common = greatest_common_divisor(micros, nanos);
        let fine = |part: u64| i128::from(part / common) * i128::from(STEPS);
        Rate { per_nano: fine(micros), per_micro: fine(nanos) }
    }

    /// Returns this rate, lower by `steps` of [`STEPS`] equal parts. Its credit has the same unit.
    #[must_use]
    pub fn slowed(&self, steps: u16) -> Self {
        assert!(steps < STEPS, "a rate stays above zero");
        let per_nano = self.per_nano / i128::from(STEPS) * i128::from(STEPS - steps);
        Rate { per_nano, per_micro: self.per_micro }
    }

    /// Converts `amount`, exactly.
    #[must_use]
    pub fn credit(&self, amount: Amount) -> Credit {
        Credit(i128::from(amount.micros()) * self.per_micro)
    }

    /// Converts `micros` millionths of a unit, which may be negative. Saturates at ±2¹¹⁶ parts.
    #[must_use]
    pub fn credit_of_micros(&self, micros: i128) -> Credit {
        Credit(micros.saturating_mul(self.per_micro)).max(Credit::FLOOR).min(-Credit::FLOOR)
    }

    /// Converts `credit` to millionths of a unit, rounding down, so no report shows too much.
    #[must_use]
    pub fn micros(&self, credit: Credit) -> i128 {
        credit.0.div_euclid(self.per_micro)
    }

    /// Converts `credit` to units, rounding down to millionths, for people to read.
    #[must_use]
    pub fn units(&self, credit: Credit) -> f64 {
        self.micros(credit) as f64 / Amount::ONE.micros() as f64
    }

    /// Converts `credit` to millionths of a unit, rounding up, from zero to `u64::MAX`.
    #[must_use]
    pub fn micros_up(&self, credit: Credit) -> u64 {
        let up = -((-credit.0.max(0)).div_euclid(self.per_micro));
        u64::try_from(up).unwrap_or(u64::MAX)
    }

    /// Returns the nanoseconds that refill `credit`, negative for negative credit. The result is
    /// rounded down, so that the smallest shortfall shows.
    #[must_use]
    pub fn nanos_of(&self, credit: Credit) -> i128 {
        credit.0.div_euclid(self.per_nano)
    }

    /// Returns the refill within `span`.
    #[must_use]
    pub fn refill_within(&self, span: Span) -> Credit {
        Credit(self.per_nano * i128::from(span.nanos()))
    }

    /// Returns the refill until `time`, counted from the origin of time.
    #[must_use]
    pub fn refill(&self, time: Time) -> Credit {
        Credit(self.per_nano * i128::from(time.nanos()))
    }

    /// Returns when [`Rate::refill`] is first at least `credit`, or the end of time.
    #[must_use]
    pub fn refilled_at(&self, credit: Credit) -> Time {
        if credit <= Credit::ZERO {
            return Time::ORIGIN;
        }
        let rounded_up = (credit.0 - 1) / self.per_nano + 1;
        Time::from_nanos(u64::try_from(rounded_up).unwrap_or(u64::MAX))
    }

    /// Returns how long the refill of `credit` takes, rounded up.
    #[must_use]
    pub fn refill_span(&self, credit: Credit) -> Span {
        self.refilled_at(credit).since(Time::ORIGIN)
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::MAX_PERIOD;

    fn amount(units: f64) -> Amount {
        Amount::new(units).unwrap()
    }

    #[test]
    fn an_amount_is_refilled_to_the_nanosecond_and_not_before() {
        // Capacity, period in ms, amount, its refill time in ns.
        let table = [
            (1000.0, 60_000, 1.0, 60_000_000),
            (400_000.0, 744 * 3_600_000, 1.0, 6_696_000_000),
            (3.0, 1_000, 1.0, 333_333_334),
            (3.0, 1_000, 0.000_001, 334),
            (1e9, 1_000, 0.000_001, 1),
        ];
        for (capacity, period_ms, paid, nanos) in table {
            let rate = Rate::new(amount(capacity), Span::from_millis(period_ms));
            let paid = rate.credit(amount(paid));
            assert_eq!(rate.refilled_at(paid), Time::from_nanos(nanos), "{capacity} in {period_ms} ms");
            assert!(rate.refill(Time::from_nanos(nanos - 1)) < paid, "{capacity} in {period_ms} ms");
        }
    }

    #[test]
    fn levels_are_rounded_down_and_what_is_spent_is_rounded_up() {
        let rate = Rate::new(amount(3.0), Span::from_secs(1));
        let some = rate.refill(Time::from_nanos(1));
        assert_eq!((rate.micros(some), rate.micros(-some)), (0, -1));
        assert_eq!((rate.micros_up(some), rate.micros_up(-some)), (1, 0));
    }

    /// The largest amount within the longest period, in numbers without a common divisor.
    #[test]
    fn a_rate_does_not_overflow_at_the_bounds() {
        let most = Amount::from_micros(999_999_999_999_999).unwrap();
        let period = MAX_PERIOD.saturating_sub(Span::from_nanos(1));
        let rate = Rate::new(most, period);
        assert_eq!(rate.refilled_at(rate.credit(most)), Time::from_nanos(period.nanos()));
        assert_eq!(rate.refilled_at(rate.refill(Time::NEVER)), Time::NEVER);
    }
}
