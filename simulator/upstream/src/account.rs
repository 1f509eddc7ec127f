//! The rate limits of one customer.

use crate::{
    Arrival, Cost, Policy, PolicyStats, Rejection, Rule,
    counter::{Counter, LimitState},
};
use std::{num::NonZeroUsize, time::Duration};

/// All policies of one customer: a call is paid by every policy or by none. A rejected call, for whatever reason,
/// changes only [leaky buckets](Policy::leaky_bucket).
///
/// Time is a [`Duration`] since an origin that the caller chooses. It ends after 2⁶⁴ nanoseconds,
/// at which the account stops. Times should not decrease; an earlier time counts as the last one.
///
/// ```
/// use rampmeter_upstream::{Account, Cost, Rejection};
/// use std::time::Duration;
///
/// let mut account = Account::new(vec!["requests=1/10s".parse()?]);
/// assert_eq!(account.admit(Duration::ZERO, &Cost::new()), Ok(()));
/// let rejection = account.admit(Duration::from_secs(4), &Cost::new());
/// assert_eq!(rejection, Err(Rejection::RetryAfter(Duration::from_secs(6))));
/// assert_eq!(account.admit(Duration::from_secs(10), &Cost::new()), Ok(()));
/// # Ok::<(), rampmeter_upstream::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Account {
    counters: Vec<Counter>,
    concurrency: Option<NonZeroUsize>,
    in_flight: usize,
}

/// A rejection, and the rule that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The greatest [`Rejection`] by all rules that count the call.
    pub rejection: Rejection,
    /// The number of the rejecting rule; `None` for the bound on calls in flight.
    pub(crate) rule: Option<usize>,
}

/// The rules that count a call, by number, each with the key that it counts for.
type Counting = Vec<(usize, Vec<String>)>;

impl Account {
    /// Creates an account at the origin of time. A unit may have several policies, or none.
    #[must_use]
    pub fn new(policies: Vec<Policy>) -> Self {
        Self::of(policies.into_iter().map(Rule::from).collect())
    }

    /// Creates an account whose limits may count only some calls, or each label value separately.
    #[must_use]
    pub fn of(rules: Vec<Rule>) -> Self {
        Self { counters: rules.into_iter().map(Counter::new).collect(), concurrency: None, in_flight: 0 }
    }

    /// Bounds the admitted calls that have not [finished](Self::finish) to `limit`.
    #[must_use]
    pub fn with_concurrency(self, limit: NonZeroUsize) -> Self {
        Self { concurrency: Some(limit), ..self }
    }

    /// Lets fixed windows begin at multiples of their period from `since` before the origin.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Amount, Cost, Policy, Unit};
    /// use std::time::Duration;
    ///
    /// let policies = vec!["requests=1/10s;fixed-window".parse::<Policy>()?];
    /// let mut account = Account::new(policies).with_windows_since(Duration::from_secs(1_795_000_004));
    /// let one = Cost::new().with(Unit::REQUESTS, Amount::whole(1));
    /// assert_eq!(account.admit(Duration::ZERO, &one), Ok(()));
    /// assert!(account.admit(Duration::from_secs(5), &one).is_err());
    /// assert_eq!(account.admit(Duration::from_secs(6), &one), Ok(()));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    #[must_use]
    pub fn with_windows_since(mut self, since: Duration) -> Self {
        self.counters.iter_mut().for_each(|counter| counter.begin(since.as_nanos()));
        self
    }

    /// Replaces the policies from `now` on, in their order, unannounced. A token bucket keeps its level as far as
    /// it fits, and a window that replaces one of its kind goes on. Other policies start anew.
    pub fn change(&mut self, now: Duration, policies: Vec<Policy>) {
        let mut before = std::mem::take(&mut self.counters).into_iter();
        let counter = |policy| match before.next() {
            Some(counter) => counter.changed(nanos(now), policy),
            None => Counter::new(Rule::new(policy)),
        };
        self.counters = policies.into_iter().map(counter).collect();
    }

    /// Charges a call without labels that arrives at `now`.
    ///
    /// # Errors
    /// Those of [`Self::admit_call`].
    pub fn admit(&mut self, now: Duration, cost: &Cost) -> Result<(), Rejection> {
        self.admit_call(now, &Arrival::of(cost)).map_err(|refused| refused.rejection)
    }

    /// Charges a call that arrives at `now` to all policies that count it. An admitted call is in
    /// flight until [`Self::finish`].
    ///
    /// # Errors
    /// If a policy cannot pay or too many calls are in flight; only leaky buckets count the call.
    pub fn admit_call(&mut self, now: Duration, arrival: &Arrival<'_>) -> Result<(), Refused> {
        let counting = self.arrive(nanos(now), arrival);
        if self.refused(&counting, arrival).is_none() {
            counting.iter().for_each(|(rule, key)| self.counters[*rule].charge(key, arrival));
            self.in_flight += 1;
            return Ok(());
        }
        counting.iter().for_each(|(rule, key)| self.counters[*rule].reject(key, arrival));
        // The waits are computed afterwards, because leaky buckets have just lengthened theirs.
        Err(self.refused(&counting, arrival).expect("a rejected call makes no room"))
    }

    /// Notes that an admitted call has ended, which only a bound on calls in flight needs.
    ///
    /// # Panics
    /// If no admitted call is in flight.
    pub fn finish(&mut self) {
        self.in_flight = self.in_flight.checked_sub(1).expect("only admitted calls finish, and only once");
    }

    /// Returns the number of admitted calls that have not finished.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns what each policy has spent and could spend at `now`, in their order; with keys, the scarcest level.
    #[must_use]
    pub fn policies(&self, now: Duration) -> Vec<PolicyStats> {
        self.counters.iter().map(|counter| counter.stats(nanos(now))).collect()
    }

    /// Returns what the policies that count this call have left, with their numbers.
    pub(crate) fn standings(&self, now: Duration, arrival: &Arrival<'_>) -> Vec<(usize, LimitState<'_>)> {
        let counters = self.counters.iter().enumerate();
        counters.filter_map(|(rule, counter)| Some((rule, counter.standing(nanos(now), arrival)?))).collect()
    }

    pub(crate) fn rule(&self, number: usize) -> &Rule {
        self.counters[number].rule()
    }

    fn arrive(&mut self, now_ns: u64, arrival: &Arrival<'_>) -> Counting {
        let counters = self.counters.iter_mut().enumerate();
        counters.filter_map(|(rule, counter)| Some((rule, counter.arrive(now_ns, arrival)?))).collect()
    }

    /// Returns the greatest reason: levels only rise, so all can pay after the longest wait.
    fn refused(&self, counting: &Counting, arrival: &Arrival<'_>) -> Option<Refused> {
        let full = self.concurrency.is_some_and(|limit| self.in_flight >= limit.get());
        let busy = full.then_some(Refused { rejection: Rejection::TooManyInFlight, rule: None });
        let by_rule = counting.iter().filter_map(|(rule, key)| {
            let rejection = self.counters[*rule].refusal(key, arrival)?;
            Some(Refused { rejection, rule: Some(*rule) })
        });
        by_rule.chain(busy).max_by_key(|refused| refused.rejection)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
