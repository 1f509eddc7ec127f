//! All rate limits of one customer.

use crate::{Amount, Cost, Policy, PolicyStats, Rejection, meter::Meter};
use std::{num::NonZeroUsize, time::Duration};

/// All policies of one customer, charged together: a call is paid by every policy or by none.
///
/// A rejected call changes only [leaky buckets](Policy::leaky_bucket): they count it, whatever the
/// reason of the rejection was.
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
    entries: Vec<Entry>,
    concurrency: Option<NonZeroUsize>,
    in_flight: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    policy: Policy,
    meter: Meter,
    spent: Amount,
}

impl Account {
    /// An account at the origin of time. A unit may have several policies; without any policy every
    /// call is admitted.
    #[must_use]
    pub fn new(policies: Vec<Policy>) -> Self {
        Self { entries: policies.into_iter().map(Entry::new).collect(), concurrency: None, in_flight: 0 }
    }

    /// The same account with a bound on calls in flight: calls that were admitted and have not
    /// [finished](Self::finish). Fewer than `limit` have to be in flight for another to be
    /// admitted.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Cost, Rejection};
    /// use std::{num::NonZeroUsize, time::Duration};
    ///
    /// let mut account = Account::new(vec![]).with_concurrency(NonZeroUsize::MIN);
    /// assert_eq!(account.admit(Duration::ZERO, &Cost::new()), Ok(()));
    /// assert_eq!(account.admit(Duration::ZERO, &Cost::new()), Err(Rejection::TooManyInFlight));
    /// account.finish();
    /// assert_eq!(account.admit(Duration::ZERO, &Cost::new()), Ok(()));
    /// ```
    #[must_use]
    pub fn with_concurrency(self, limit: NonZeroUsize) -> Self {
        Self { concurrency: Some(limit), ..self }
    }

    /// The same account with other fixed windows. They begin at multiples of their period since a
    /// time that was `since` before the origin.
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
        self.entries.iter_mut().for_each(|entry| entry.meter.begin(since.as_nanos()));
        self
    }

    /// Replaces the policies from `now` on, in their order. A token bucket that replaces another
    /// keeps its level, as far as there is room. Any other policy begins anew. The change is not
    /// announced.
    ///
    /// ```
    /// use rampmeter_upstream::{Account, Amount, Cost};
    /// use std::time::Duration;
    ///
    /// let mut account = Account::new(vec!["requests=10/10s".parse()?]);
    /// let at = Duration::from_secs(60);
    /// account.change(at, vec!["requests=4/10s".parse()?]);
    /// assert_eq!(account.policies(at)[0].level, Amount::whole(4));
    /// assert_eq!(account.admit(at, &Cost::new()), Ok(()));
    /// account.change(at, vec!["requests=10/10s".parse()?]);
    /// assert_eq!(account.policies(at)[0].level, Amount::whole(3));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    pub fn change(&mut self, now: Duration, policies: Vec<Policy>) {
        let now_ns = nanos(now);
        let mut before = std::mem::take(&mut self.entries).into_iter();
        let entry = |policy| Entry::succeeding(policy, before.next(), now_ns);
        self.entries = policies.into_iter().map(entry).collect();
    }

    /// Charges a call that arrives at `now` to all policies. An admitted call is in flight until
    /// [`Self::finish`].
    ///
    /// # Errors
    ///
    /// When any policy cannot pay, or too many calls are in flight. Then no policy pays, and every
    /// leaky bucket counts the call.
    pub fn admit(&mut self, now: Duration, cost: &Cost) -> Result<(), Rejection> {
        let now_ns = nanos(now);
        self.entries.iter_mut().for_each(|entry| entry.meter.advance(now_ns));
        if self.rejection(cost).is_none() {
            self.charge(cost);
            return Ok(());
        }
        self.entries.iter_mut().for_each(|entry| entry.reject(cost));
        // The waits are computed afterwards, because leaky buckets have just lengthened theirs.
        Err(self.rejection(cost).expect("a rejected call makes no room"))
    }

    /// An admitted call has ended. An account without a concurrency limit does not need this.
    ///
    /// # Panics
    ///
    /// When no admitted call is in flight.
    pub fn finish(&mut self) {
        self.in_flight = self.in_flight.checked_sub(1).expect("only admitted calls finish, and only once");
    }

    /// The number of calls that were admitted and have not finished.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// What each policy has spent and could spend at `now`, in the order of the policies.
    #[must_use]
    pub fn policies(&self, now: Duration) -> Vec<PolicyStats> {
        self.entries.iter().map(|entry| entry.stats(nanos(now))).collect()
    }

    /// The greatest rejection. Levels only rise meanwhile, so all policies can pay after the
    /// longest wait.
    fn rejection(&self, cost: &Cost) -> Option<Rejection> {
        let full = self.concurrency.is_some_and(|limit| self.in_flight >= limit.get());
        let busy = full.then_some(Rejection::TooManyInFlight);
        self.entries.iter().filter_map(|entry| entry.refusal(cost)).chain(busy).max()
    }

    fn charge(&mut self, cost: &Cost) {
        self.entries.iter_mut().for_each(|entry| entry.charge(cost));
        self.in_flight += 1;
    }
}

impl Entry {
    fn new(policy: Policy) -> Self {
        Self { meter: Meter::new(&policy), policy, spent: Amount::ZERO }
    }

    fn succeeding(policy: Policy, before: Option<Self>, now_ns: u64) -> Self {
        let mut entry = Self::new(policy);
        entry.meter.advance(now_ns);
        if let Some(before) = before {
            entry.meter.hold(before.meter.spendable(now_ns));
            entry.spent = before.spent;
        }
        entry
    }

    fn refusal(&self, cost: &Cost) -> Option<Rejection> {
        self.meter.refusal(self.share(cost))
    }

    fn charge(&mut self, cost: &Cost) {
        let share = self.share(cost);
        self.meter.charge(share);
        self.spent = self.spent.saturating_add(share);
    }

    fn reject(&mut self, cost: &Cost) {
        self.meter.reject(self.share(cost));
    }

    fn share(&self, cost: &Cost) -> Amount {
        cost.of(self.policy.unit())
    }

    fn stats(&self, now_ns: u64) -> PolicyStats {
        PolicyStats { policy: self.policy.clone(), spent: self.spent, level: self.meter.spendable(now_ns) }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
