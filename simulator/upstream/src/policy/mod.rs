//! One rate limit.

pub(super) mod amount;
pub(super) mod cost;
pub(super) mod error;
pub(super) mod model;
pub(super) mod option;
pub(super) mod text;
pub(super) mod unit;

use crate::{
    Amount, PolicyError, PolicyOption, Unit,
    policy::model::{Model, Variant},
};
use std::{num::NonZeroU64, time::Duration};

/// One rate limit: `capacity` of `unit` per `period`, counted by one of five models.
///
/// By default it is a token bucket that holds the capacity, starts full and refills evenly. A
/// period of zero means a fixed amount that never refills, as `PT0S` does at Sentinel Hub.
///
/// In text a policy is `unit=capacity/period`, with the period in ISO 8601 or as people write it.
/// Days have 24 hours. Months have no fixed length and are refused. Options follow, each after a
/// `;`, in any order:
///
/// | option | meaning |
/// |---|---|
/// | `burst=40` | the token bucket holds less than the capacity: [`with_burst`](Self::with_burst) |
/// | `start=0` | it does not start full: [`starting_at`](Self::starting_at) |
/// | `tick=1s` | it refills in ticks: [`ticking`](Self::ticking) |
/// | `whole` | its refills drop fractions of a unit: [`dropping_fractions`](Self::dropping_fractions) |
/// | `fixed-window` | the capacity per window: [`fixed_window`](Self::fixed_window) |
/// | `phase=20s` | the fixed windows begin later: [`with_phase`](Self::with_phase) |
/// | `first-use` | a window begins with its first call: [`first_use_window`](Self::first_use_window) |
/// | `sliding-window` | the capacity in any window: [`sliding_window`](Self::sliding_window) |
/// | `leaky-bucket` | rejected calls count too: [`leaky_bucket`](Self::leaky_bucket) |
///
/// The first four refine the token bucket and go together. `phase` refines `fixed-window`, and
/// implies it. Each of the other options is used alone.
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
///
/// let ticking: Policy = "requests=50/10s;tick=1s;burst=40".parse()?;
/// assert_eq!(ticking.to_string(), "requests=50/PT10S;burst=40;tick=PT1S");
/// # Ok::<(), rampmeter_upstream::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    unit: Unit,
    capacity: Amount,
    period_ns: u64,
    model: Model,
}

impl Policy {
    /// A token bucket. The values are checked here, so that every policy is valid.
    ///
    /// # Errors
    ///
    /// [`PolicyError::ZeroCapacity`] and [`PolicyError::PeriodTooLong`].
    pub fn new(unit: Unit, capacity: Amount, period: Duration) -> Result<Self, PolicyError> {
        if capacity == Amount::ZERO {
            return Err(PolicyError::ZeroCapacity);
        }
        let period_ns = u64::try_from(period.as_nanos()).map_err(|_| PolicyError::PeriodTooLong)?;
        Ok(Self { unit, capacity, period_ns, model: Model::TokenBucket(Variant::default()) })
    }

    /// The counted unit.
    #[must_use]
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// The most that a call can cost, unless a [burst](Self::with_burst) is below it. The same
    /// amount flows in during one period.
    #[must_use]
    pub fn capacity(&self) -> Amount {
        self.capacity
    }

    /// How long the capacity takes to flow in; zero if it never does.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// What nominally flows in during `elapsed`: capacity × elapsed / period, rounded up to a
    /// micro-unit. It is nothing if the policy never refills. Dropped fractions count as inflow.
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

    /// A token bucket that holds only `burst`, which is above zero and at most the capacity. The
    /// rate stays capacity per period.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Amount, Cost, Policy, Rejection, Unit};
    /// use std::time::Duration;
    ///
    /// let policy = "requests=50/10s".parse::<Policy>()?.with_burst(Amount::whole(2))?;
    /// let mut account = Account::new(vec![policy]);
    /// let calls = |count| Cost::new().with(Unit::REQUESTS, Amount::whole(count));
    /// assert_eq!(account.admit(Duration::ZERO, &calls(3)), Err(Rejection::Never));
    /// assert_eq!(account.admit(Duration::ZERO, &calls(2)), Ok(()));
    /// let wait = Duration::from_millis(200);
    /// assert_eq!(account.admit(Duration::ZERO, &calls(1)), Err(Rejection::RetryAfter(wait)));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PolicyError::BurstOutOfBounds`]; [`PolicyError::StartOutOfBounds`] if it starts with more
    /// than that; [`PolicyError::NotTogether`] if it is no token bucket.
    pub fn with_burst(self, burst: Amount) -> Result<Self, PolicyError> {
        let capacity = self.capacity;
        if burst == Amount::ZERO || burst > capacity {
            return Err(PolicyError::BurstOutOfBounds { burst, capacity });
        }
        self.vary(PolicyOption::Burst, |variant| variant.burst = Some(burst))
    }

    /// A token bucket with this level at the origin of time. The level is at most what it holds; by
    /// default it starts full.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Amount, Cost, Policy, Rejection};
    /// use std::time::Duration;
    ///
    /// let policy = "requests=50/10s".parse::<Policy>()?.starting_at(Amount::ZERO)?;
    /// let mut account = Account::new(vec![policy]);
    /// let wait = Duration::from_millis(200);
    /// assert_eq!(account.admit(Duration::ZERO, &Cost::new()), Err(Rejection::RetryAfter(wait)));
    /// assert_eq!(account.admit(wait, &Cost::new()), Ok(()));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PolicyError::StartOutOfBounds`]; [`PolicyError::NotTogether`] if it is no token bucket.
    pub fn starting_at(self, level: Amount) -> Result<Self, PolicyError> {
        self.vary(PolicyOption::Start, |variant| variant.start = Some(level))
    }

    /// A token bucket that refills only at multiples of `tick` since the origin of time. Each
    /// refill brings the inflow since the one before.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Amount, Cost, Policy, Rejection};
    /// use std::time::Duration;
    ///
    /// let policy: Policy = "requests=50/10s;start=0".parse()?;
    /// let mut account = Account::new(vec![policy.ticking(Duration::from_secs(1))?]);
    /// let wait = Duration::from_millis(100);
    /// let just_before_the_tick = Duration::from_millis(900);
    /// assert_eq!(account.admit(just_before_the_tick, &Cost::new()), Err(Rejection::RetryAfter(wait)));
    /// assert_eq!(account.admit(Duration::from_secs(1), &Cost::new()), Ok(()));
    /// assert_eq!(account.policies(Duration::from_secs(1))[0].level, Amount::whole(4));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PolicyError::TickOutOfBounds`] for zero and for more than 2⁶⁴ nanoseconds, 584 years;
    /// [`PolicyError::NeverRefills`]; [`PolicyError::NotTogether`] if it is no token bucket.
    pub fn ticking(self, tick: Duration) -> Result<Self, PolicyError> {
        let tick_ns = u64::try_from(tick.as_nanos()).ok().and_then(NonZeroU64::new);
        let tick_ns = tick_ns.ok_or(PolicyError::TickOutOfBounds { tick })?;
        self.refilling(PolicyOption::Tick)?.vary(PolicyOption::Tick, |variant| variant.tick_ns = Some(tick_ns))
    }

    /// A token bucket whose refills bring whole units only; the remaining fraction is lost.
    ///
    /// If it [ticks](Self::ticking), every tick is a refill. Otherwise every arriving call is one,
    /// whatever it costs and whether it is admitted. The rate is below the nominal one, and zero if
    /// less than a unit flows between refills. A wait holds only if no call arrives meanwhile.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Amount, Cost, Policy, Rejection};
    /// use std::time::Duration;
    ///
    /// let policy = "requests=10/1s;start=0".parse::<Policy>()?.dropping_fractions()?;
    /// let mut account = Account::new(vec![policy]);
    /// // Nine tenths of a unit have flowed in, and are lost.
    /// let (early, wait) = (Duration::from_millis(90), Duration::from_millis(100));
    /// assert_eq!(account.admit(early, &Cost::new()), Err(Rejection::RetryAfter(wait)));
    /// assert_eq!(account.admit(early + wait, &Cost::new()), Ok(()));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PolicyError::NeverRefills`]; [`PolicyError::NotTogether`] if it is no token bucket.
    pub fn dropping_fractions(self) -> Result<Self, PolicyError> {
        self.refilling(PolicyOption::Whole)?.vary(PolicyOption::Whole, |variant| variant.whole = true)
    }

    /// At most the capacity in each window. A window is as long as the period, and the first one
    /// begins at the origin of time. Around the end of a window twice the capacity can be spent at
    /// once.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Amount, Cost, Policy, Rejection, Unit};
    /// use std::time::Duration;
    ///
    /// let mut account = Account::new(vec!["requests=50/10s".parse::<Policy>()?.fixed_window()?]);
    /// let all = Cost::new().with(Unit::REQUESTS, Amount::whole(50));
    /// assert_eq!(account.admit(Duration::from_secs(9), &all), Ok(()));
    /// let wait = Duration::from_secs(1);
    /// assert_eq!(account.admit(Duration::from_secs(9), &all), Err(Rejection::RetryAfter(wait)));
    /// assert_eq!(account.admit(Duration::from_secs(10), &all), Ok(()));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PolicyError::NeverRefills`]; [`PolicyError::NotTogether`] if it is another model already,
    /// or a variant of the token bucket.
    pub fn fixed_window(self) -> Result<Self, PolicyError> {
        let phase_ns = self.model.phase_ns();
        self.counting_by(Model::FixedWindow { phase_ns }, PolicyOption::FixedWindow)
    }

    /// Fixed windows that begin `phase` after multiples of the period.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Cost, Policy};
    /// use std::time::Duration;
    ///
    /// let policy = "requests=1/10s".parse::<Policy>()?.with_phase(Duration::from_secs(4))?;
    /// let mut account = Account::new(vec![policy]);
    /// let at = |seconds| Duration::from_secs(seconds);
    /// assert_eq!(account.admit(at(3), &Cost::new()), Ok(()));
    /// assert_eq!(account.admit(at(4), &Cost::new()), Ok(()));
    /// assert!(account.admit(at(13), &Cost::new()).is_err());
    /// assert_eq!(account.admit(at(14), &Cost::new()), Ok(()));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PolicyError::PhaseOutOfBounds`], and as for [`Self::fixed_window`].
    pub fn with_phase(self, phase: Duration) -> Result<Self, PolicyError> {
        let period = self.period();
        let windows = self.counting_by(Model::FixedWindow { phase_ns: 0 }, PolicyOption::Phase)?;
        if phase >= period {
            return Err(PolicyError::PhaseOutOfBounds { phase, period });
        }
        let phase_ns = u64::try_from(phase.as_nanos()).expect("less than the period");
        Ok(Self { model: Model::FixedWindow { phase_ns }, ..windows })
    }

    /// At most the capacity in each window. A window begins with the first call after the last
    /// window, whatever that call costs, and is as long as the period.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Amount, Cost, Policy, Rejection, Unit};
    /// use std::time::Duration;
    ///
    /// let policy = "requests=50/10s".parse::<Policy>()?.first_use_window()?;
    /// let mut account = Account::new(vec![policy]);
    /// let calls = |count| Cost::new().with(Unit::REQUESTS, Amount::whole(count));
    /// assert_eq!(account.admit(Duration::from_secs(4), &calls(50)), Ok(()));
    /// let wait = Duration::from_secs(1);
    /// assert_eq!(account.admit(Duration::from_secs(13), &calls(1)), Err(Rejection::RetryAfter(wait)));
    /// assert_eq!(account.admit(Duration::from_secs(14), &calls(50)), Ok(()));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Self::fixed_window`].
    pub fn first_use_window(self) -> Result<Self, PolicyError> {
        self.counting_by(Model::FirstUseWindow, PolicyOption::FirstUse)
    }

    /// At most the capacity in any window as long as the period. A call that was admitted at *t*
    /// counts before *t* + period, and not at that time.
    ///
    /// The account remembers every admitted call of the last period that took some of the unit.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Cost, Policy, Rejection};
    /// use std::time::Duration;
    ///
    /// let mut account = Account::new(vec!["requests=1/10s".parse::<Policy>()?.sliding_window()?]);
    /// assert_eq!(account.admit(Duration::from_secs(9), &Cost::new()), Ok(()));
    /// let wait = Duration::from_secs(9);
    /// assert_eq!(account.admit(Duration::from_secs(10), &Cost::new()), Err(Rejection::RetryAfter(wait)));
    /// assert_eq!(account.admit(Duration::from_secs(19), &Cost::new()), Ok(()));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Self::fixed_window`].
    pub fn sliding_window(self) -> Result<Self, PolicyError> {
        self.counting_by(Model::SlidingWindow, PolicyOption::SlidingWindow)
    }

    /// A bucket that calls fill and that drains at capacity per period. A call is admitted if its
    /// cost fits.
    ///
    /// A rejected call fills it too, as far as there is room, whatever the reason of the rejection
    /// was. Clients that never pause keep it full. A wait is computed after that.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Cost, Policy, Rejection};
    /// use std::time::Duration;
    ///
    /// let mut account = Account::new(vec!["requests=1/10s".parse::<Policy>()?.leaky_bucket()?]);
    /// let whole_period = Err(Rejection::RetryAfter(Duration::from_secs(10)));
    /// assert_eq!(account.admit(Duration::ZERO, &Cost::new()), Ok(()));
    /// assert_eq!(account.admit(Duration::from_secs(9), &Cost::new()), whole_period);
    /// assert_eq!(account.admit(Duration::from_secs(18), &Cost::new()), whole_period);
    /// assert_eq!(account.admit(Duration::from_secs(28), &Cost::new()), Ok(()));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Self::fixed_window`].
    pub fn leaky_bucket(self) -> Result<Self, PolicyError> {
        self.counting_by(Model::LeakyBucket, PolicyOption::LeakyBucket)
    }

    /// The period in nanoseconds; zero if the policy never refills.
    pub(crate) fn period_ns(&self) -> u64 {
        self.period_ns
    }

    pub(crate) fn model(&self) -> Model {
        self.model
    }

    fn refilling(self, option: PolicyOption) -> Result<Self, PolicyError> {
        if self.period_ns == 0 { Err(PolicyError::NeverRefills { option }) } else { Ok(self) }
    }

    fn vary(self, option: PolicyOption, change: impl FnOnce(&mut Variant)) -> Result<Self, PolicyError> {
        let mut variant = self.model.variant().map_err(|other| PolicyError::NotTogether { option, other })?;
        change(&mut variant);
        let holds = variant.holds(self.capacity);
        match variant.start {
            Some(start) if start > holds => Err(PolicyError::StartOutOfBounds { start, holds }),
            Some(_) | None => Ok(Self { model: Model::TokenBucket(variant), ..self }),
        }
    }

    fn counting_by(self, model: Model, option: PolicyOption) -> Result<Self, PolicyError> {
        let refines = option == PolicyOption::Phase;
        match self.model.option() {
            Some(PolicyOption::FixedWindow) if refines => Ok(self),
            Some(other) if other != option => Err(PolicyError::NotTogether { option, other }),
            Some(_) | None => Ok(Self { model, ..self.refilling(option)? }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
