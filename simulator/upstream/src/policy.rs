//! One rate limit.

use crate::{Amount, AmountError, Unit, UnitError};
use jiff::{SignedDuration, Span, SpanRelativeTo};
use std::{fmt, str::FromStr, time::Duration};

/// One rate limit: at most `capacity` of `unit` at once, refilled evenly at `capacity` per `period`.
///
/// A period of zero means a fixed amount that never refills, as `PT0S` does at Sentinel Hub. In text a policy is
/// `unit=capacity/period`, the period in ISO 8601 or as people write it; days have 24 hours, and months, which have no
/// fixed length, are refused.
///
/// ```
/// use rampmeter_upstream::{Amount, Policy, Unit};
/// use std::time::Duration;
///
/// let policy: Policy = "processing-units=200/PT1M".parse()?;
/// assert_eq!(policy.unit(), &Unit::PROCESSING_UNITS);
/// assert_eq!(policy.capacity(), Amount::whole(200));
/// assert_eq!(policy.period(), Duration::from_secs(60));
/// assert_eq!(policy, Policy::new(Unit::PROCESSING_UNITS, Amount::whole(200), Duration::from_secs(60))?);
/// # Ok::<(), rampmeter_upstream::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    unit: Unit,
    capacity: Amount,
    period_ns: u64,
}

/// Why something is not a [`Policy`].
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The text has no `=` or no `/` after it.
    #[error("`{text}` is not unit=capacity/period, for example requests=50/10s")]
    Shape {
        /// The whole text.
        text: String,
    },
    /// The part before the `=` names no unit.
    #[error("`{text}` names no unit")]
    Unit {
        /// What stands before the `=`.
        text: String,
        /// What is wrong with it.
        source: UnitError,
    },
    /// The part between `=` and `/` is no amount.
    #[error("`{text}` is no capacity")]
    Capacity {
        /// What stands between `=` and `/`.
        text: String,
        /// What is wrong with it.
        source: AmountError,
    },
    /// The part after the `/` is no duration of a fixed length.
    #[error("`{text}` is no period, for example 10s or PT10S")]
    Period {
        /// What stands after the `/`.
        text: String,
        /// What is wrong with it.
        source: jiff::Error,
    },
    /// The period runs backwards.
    #[error("the period is negative")]
    NegativePeriod,
    /// The period is longer than 2⁶⁴ nanoseconds, about 584 years.
    #[error("the period is longer than 584 years")]
    PeriodTooLong,
    /// A capacity of zero could never pay for anything.
    #[error("the capacity is zero")]
    ZeroCapacity,
}

impl Policy {
    /// Checks the values once, so that every policy can be calculated with.
    ///
    /// # Errors
    ///
    /// [`PolicyError::ZeroCapacity`] and [`PolicyError::PeriodTooLong`].
    pub fn new(unit: Unit, capacity: Amount, period: Duration) -> Result<Self, PolicyError> {
        if capacity == Amount::ZERO {
            return Err(PolicyError::ZeroCapacity);
        }
        let period_ns = u64::try_from(period.as_nanos()).map_err(|_| PolicyError::PeriodTooLong)?;
        Ok(Self { unit, capacity, period_ns })
    }

    /// What is counted.
    #[must_use]
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// The most that can be spent at once, and what flows in during one period.
    #[must_use]
    pub fn capacity(&self) -> Amount {
        self.capacity
    }

    /// How long an empty policy takes to fill up; zero when it never does.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// What flows in during `elapsed`, rounded up to a micro-unit; nothing when the policy never refills.
    ///
    /// ```
    /// use rampmeter_upstream::{Amount, Policy};
    /// use std::time::Duration;
    ///
    /// let policy: Policy = "requests=50/10s".parse()?;
    /// assert_eq!(policy.refill_during(Duration::from_secs(60)), Amount::whole(300));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    #[must_use]
    pub fn refill_during(&self, elapsed: Duration) -> Amount {
        if self.period_ns == 0 {
            return Amount::ZERO;
        }
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let flow = u128::from(self.capacity.micros()) * u128::from(elapsed_ns);
        let micros = flow.div_ceil(u128::from(self.period_ns));
        Amount::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The period in nanoseconds; zero when the policy never refills.
    pub(crate) fn period_ns(&self) -> u64 {
        self.period_ns
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let shape = || PolicyError::Shape { text: text.to_owned() };
        let (unit, rate) = text.split_once('=').ok_or_else(shape)?;
        let (capacity, period) = rate.split_once('/').ok_or_else(shape)?;
        Self::new(read_unit(unit.trim())?, read_capacity(capacity.trim())?, read_period(period.trim())?)
    }
}

impl fmt::Display for Policy {
    /// The text that reads back as this policy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whole seconds of 2⁶⁴ nanoseconds fit by far.
        let period = SignedDuration::try_from(self.period()).unwrap_or(SignedDuration::MAX);
        write!(f, "{}={}/{period}", self.unit, self.capacity)
    }
}

fn read_unit(text: &str) -> Result<Unit, PolicyError> {
    text.parse().map_err(|source| PolicyError::Unit { text: text.to_owned(), source })
}

fn read_capacity(text: &str) -> Result<Amount, PolicyError> {
    text.parse().map_err(|source| PolicyError::Capacity { text: text.to_owned(), source })
}

fn read_period(text: &str) -> Result<Duration, PolicyError> {
    let fixed_length = |span: Span| span.to_duration(SpanRelativeTo::days_are_24_hours());
    let period = text.parse::<Span>().and_then(fixed_length);
    let period = period.map_err(|source| PolicyError::Period { text: text.to_owned(), source })?;
    Duration::try_from(period).map_err(|_| PolicyError::NegativePeriod)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    #[test]
    fn good_texts_are_read_and_printed() {
        #[rustfmt::skip]
        let table = [
            // text,                          unit,               micros,       period,            printed
            ("requests=50/10s",               "requests",         50_000_000,   10_000_000_000,    "requests=50/PT10S"),
            ("processing-units=200/10s",      "processing-units", 200_000_000,  10_000_000_000,    "processing-units=200/PT10S"),
            ("requests=1000/PT1M",            "requests",         1_000_000_000, 60_000_000_000,   "requests=1000/PT1M"),
            ("requests=1/PT744H",             "requests",         1_000_000,    744 * HOUR_NS,     "requests=1/PT744H"),
            ("requests=1/PT0S",               "requests",         1_000_000,    0,                 "requests=1/PT0S"),
            ("tokens=0.5/1 minute 30 seconds", "tokens",          500_000,      90_000_000_000,    "tokens=0.5/PT1M30S"),
            (" requests = 2 / 100 ms ",       "requests",         2_000_000,    100_000_000,       "requests=2/PT0.1S"),
            ("requests=2/P1D",                "requests",         2_000_000,    24 * HOUR_NS,      "requests=2/PT24H"),
        ];
        for (text, unit, micros, period_ns, printed) in table {
            let policy: Policy = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(policy.unit().as_str(), unit, "{text}");
            assert_eq!(policy.capacity().micros(), micros, "{text}");
            assert_eq!(policy.period(), Duration::from_nanos(period_ns), "{text}");
            assert_eq!(policy.to_string(), printed);
            assert_eq!(printed.parse::<Policy>().unwrap(), policy);
        }
    }

    #[test]
    fn bad_texts_are_refused_with_their_reason() {
        #[rustfmt::skip]
        let table = [
            ("",                         "`` is not unit=capacity/period, for example requests=50/10s"),
            ("requests",                 "`requests` is not unit=capacity/period, for example requests=50/10s"),
            ("requests=50",              "`requests=50` is not unit=capacity/period, for example requests=50/10s"),
            ("50/10s",                   "`50/10s` is not unit=capacity/period, for example requests=50/10s"),
            ("=50/10s",                  "`` names no unit"),
            ("Requests=50/10s",          "`Requests` names no unit"),
            ("requests=many/10s",        "`many` is no capacity"),
            ("requests=-1/10s",          "`-1` is no capacity"),
            ("requests=0.0000001/10s",   "`0.0000001` is no capacity"),
            ("requests=0/10s",           "the capacity is zero"),
            ("requests=50/",             "`` is no period, for example 10s or PT10S"),
            ("requests=50/10",           "`10` is no period, for example 10s or PT10S"),
            ("requests=50/soon",         "`soon` is no period, for example 10s or PT10S"),
            ("requests=50/P1M",          "`P1M` is no period, for example 10s or PT10S"),
            ("requests=50/-PT10S",       "the period is negative"),
            ("requests=50/PT5200000H",   "the period is longer than 584 years"),
        ];
        for (text, reason) in table {
            assert_eq!(text.parse::<Policy>().unwrap_err().to_string(), reason, "{text}");
        }
    }

    #[test]
    fn refill_is_exact_and_rounds_up() {
        #[rustfmt::skip]
        let table = [
            ("requests=50/10s",   10_000_000_000, 50_000_000),
            ("requests=50/10s",   1,              1),
            ("requests=1/3s",     1_000_000_000,  333_334),
            ("requests=1000/PT1M", 60_000_000,    1_000_000),
            ("requests=7/PT0S",   u64::MAX,       0),
        ];
        for (policy, elapsed_ns, micros) in table {
            let policy: Policy = policy.parse().unwrap();
            let refill = policy.refill_during(Duration::from_nanos(elapsed_ns));
            assert_eq!(refill.micros(), micros, "{policy} during {elapsed_ns} ns");
        }
    }
}
