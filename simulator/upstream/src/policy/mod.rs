//! One rate limit.

pub(super) mod amount;
pub(super) mod cost;
pub(super) mod error;
pub(super) mod model;
pub(super) mod text;
pub(super) mod unit;

use crate::{
    Amount, PolicyError, Unit,
    policy::model::{FIXED_WINDOW, Model, PHASE, Variant, WindowStart},
};
use std::{num::NonZeroU64, time::Duration};

/// One rate limit: `capacity` of `unit` per `period`, counted by one of five models.
///
/// By default it is a token bucket that holds the capacity, starts full and refills evenly. A
/// period of zero means a fixed amount that never refills, as `PT0S` does at Sentinel Hub.
///
/// As text a policy is `unit=capacity/period`, with the period in ISO 8601 or as people write it. Days have
/// 24 hours. Months have no fixed length and are rejected. Options follow in any order, each after a `;`:
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
/// The first four refine the token bucket and can be combined, `phase` implies `fixed-window`, others are used alone.
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
    /// Creates a token bucket. The values are checked, so that every policy is valid.
    ///
    /// # Errors
    /// If the capacity is zero, or the period longer than 2⁶⁴ nanoseconds, about 584 years.
    pub fn new(unit: Unit, capacity: Amount, period: Duration) -> Result<Self, PolicyError> {
        if capacity == Amount::ZERO {
            return Err(PolicyError::new("the capacity is zero"));
        }
        let too_long = |_| PolicyError::new("the period is longer than 584 years");
        let period_ns = u64::try_from(period.as_nanos()).map_err(too_long)?;
        Ok(Self { unit, capacity, period_ns, model: Model::TokenBucket(Variant::default()) })
    }

    /// Returns the counted unit.
    #[must_use]
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// Returns the inflow of a period, and the most that a call can cost unless a [burst](Self::with_burst) is lower.
    #[must_use]
    pub fn capacity(&self) -> Amount {
        self.capacity
    }

    /// Returns how long the capacity takes to flow in; zero if it never does.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// Returns the nominal inflow during `elapsed`, capacity × elapsed / period, rounded up to a
    /// micro-unit; nothing if the policy never refills. Dropped fractions count as inflow.
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

    /// Lets a token bucket hold only `burst`, in (0, capacity]. The rate is unchanged.
    ///
    /// # Errors
    /// If the burst is out of bounds, the bucket starts with more, or this is not a token bucket.
    pub fn with_burst(self, burst: Amount) -> Result<Self, PolicyError> {
        let capacity = self.capacity;
        if burst == Amount::ZERO || burst > capacity {
            let bounds = "is out of bounds: more than 0 and at most the capacity";
            return Err(PolicyError::new(format!("burst={burst} {bounds}, {capacity}")));
        }
        self.vary("burst", |variant| variant.burst = Some(burst))
    }

    /// Sets a token bucket's level at the origin, at most what it holds; by default it is full.
    ///
    /// # Errors
    /// If the bucket holds less, or this is not a token bucket.
    pub fn starting_at(self, level: Amount) -> Result<Self, PolicyError> {
        self.vary("start", |variant| variant.start = Some(level))
    }

    /// Lets a token bucket refill only at multiples of `tick` since the origin of time, with the inflow since the last.
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
    /// If the tick is zero or beyond 2⁶⁴ ns (584 years), or this is not a refilling token bucket.
    pub fn ticking(self, tick: Duration) -> Result<Self, PolicyError> {
        let tick_ns = u64::try_from(tick.as_nanos()).ok().and_then(NonZeroU64::new);
        let bounds = "is out of bounds: more than 0 s and at most 584 years; leave it out for an even refill";
        let tick_ns = tick_ns.ok_or_else(|| PolicyError::new(format!("tick={tick:?} {bounds}")))?;
        self.refilling("tick")?.vary("tick", |variant| variant.tick_ns = Some(tick_ns))
    }

    /// Lets a token bucket's refills bring only whole units, and lose the remaining fraction.
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
    /// If the bucket never refills, or this is not a token bucket.
    pub fn dropping_fractions(self) -> Result<Self, PolicyError> {
        self.refilling("whole")?.vary("whole", |variant| variant.whole = true)
    }

    /// Counts at most the capacity in each window as long as the period, the first of which begins
    /// at the origin of time. Around the end of a window twice the capacity can be spent at once.
    ///
    /// # Errors
    /// If the policy never refills, or is another model already or a variant of the token bucket.
    pub fn fixed_window(self) -> Result<Self, PolicyError> {
        let phase_ns = self.model.phase_ns();
        self.counting_by(Model::Window(WindowStart::Aligned { phase_ns }), FIXED_WINDOW)
    }

    /// Counts in fixed windows that begin `phase` after multiples of the period.
    ///
    /// # Errors
    /// If the phase is not shorter than the period, and as for [`Self::fixed_window`].
    pub fn with_phase(self, phase: Duration) -> Result<Self, PolicyError> {
        let period = self.period();
        let windows = self.counting_by(Model::Window(WindowStart::Aligned { phase_ns: 0 }), PHASE)?;
        if phase >= period {
            let bounds = "is out of bounds: less than the period of";
            return Err(PolicyError::new(format!("phase={phase:?} {bounds} {period:?}")));
        }
        let phase_ns = u64::try_from(phase.as_nanos()).expect("less than the period");
        Ok(Self { model: Model::Window(WindowStart::Aligned { phase_ns }), ..windows })
    }

    /// Counts at most the capacity in each window, one period from the first call after the last, whatever it costs.
    ///
    /// # Errors
    /// Those of [`Self::fixed_window`].
    pub fn first_use_window(self) -> Result<Self, PolicyError> {
        self.counting_by(Model::Window(WindowStart::FirstUse), "first-use")
    }

    /// Counts at most the capacity in any window as long as the period. A call admitted at *t* counts before
    /// *t* + period, and not at that time. Every admitted call of the last period that took some is kept.
    ///
    /// # Errors
    /// Those of [`Self::fixed_window`].
    pub fn sliding_window(self) -> Result<Self, PolicyError> {
        self.counting_by(Model::SlidingWindow, "sliding-window")
    }

    /// Counts in a bucket that drains at capacity per period. Calls fill it if they fit, and rejected ones, for any
    /// reason, as far as there is room: clients that never pause keep it full. A wait is computed after that.
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
    /// Those of [`Self::fixed_window`].
    pub fn leaky_bucket(self) -> Result<Self, PolicyError> {
        self.counting_by(Model::LeakyBucket, "leaky-bucket")
    }

    /// The period in nanoseconds; zero if the policy never refills.
    pub(crate) fn period_ns(&self) -> u64 {
        self.period_ns
    }

    pub(crate) fn model(&self) -> Model {
        self.model
    }

    fn refilling(self, option: &str) -> Result<Self, PolicyError> {
        if self.period_ns > 0 {
            return Ok(self);
        }
        let advice = "needs a policy that refills: give it a period above zero, or leave the option out";
        Err(PolicyError::new(format!("`{option}` {advice}")))
    }

    fn vary(self, option: &str, change: impl FnOnce(&mut Variant)) -> Result<Self, PolicyError> {
        let mut variant = self.model.variant().map_err(|other| not_together(option, other))?;
        change(&mut variant);
        let holds = variant.holds(self.capacity);
        match variant.start {
            Some(start) if start > holds => {
                Err(PolicyError::new(format!("start={start} is out of bounds: at most what the bucket holds, {holds}")))
            }
            Some(_) | None => Ok(Self { model: Model::TokenBucket(variant), ..self }),
        }
    }

    fn counting_by(self, model: Model, option: &str) -> Result<Self, PolicyError> {
        let refines = option == PHASE;
        match self.model.option() {
            Some(FIXED_WINDOW) if refines => Ok(self),
            Some(other) if other != option => Err(not_together(option, other)),
            Some(_) | None => Ok(Self { model, ..self.refilling(option)? }),
        }
    }
}

fn not_together(option: &str, other: &str) -> PolicyError {
    PolicyError::new(format!("`{option}` and `{other}` do not go together; leave one of them out"))
}
