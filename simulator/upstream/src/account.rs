//! All rate limits of one customer.

use crate::{Amount, Cost, Policy, PolicyStats, Rejection, bucket::Bucket};
use std::time::Duration;

/// All policies of one customer, charged together: a call is paid by every policy or by none.
///
/// Time is a [`Duration`] since an origin that the caller chooses; 2⁶⁴ nanoseconds after it the account stands still. Times
/// should not decrease; an earlier time than the last one counts as the last one.
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
}

#[derive(Clone, Debug)]
struct Entry {
    bucket: Bucket,
    spent: Amount,
}

impl Account {
    /// An account whose policies are all full. A unit may have several policies; without any policy every call is admitted.
    #[must_use]
    pub fn new(policies: Vec<Policy>) -> Self {
        Self { entries: policies.into_iter().map(Entry::new).collect() }
    }

    /// Charges a call that arrives at `now` to all policies.
    ///
    /// # Errors
    ///
    /// When any policy cannot pay; then nothing is taken from any of them.
    pub fn admit(&mut self, now: Duration, cost: &Cost) -> Result<(), Rejection> {
        let now_ns = nanos(now);
        self.entries.iter_mut().for_each(|entry| entry.bucket.refill(now_ns));
        // The longest wait wins: policies only fill up meanwhile, so then all of them can pay.
        if let Some(rejection) = self.entries.iter().filter_map(|entry| entry.refusal(cost)).max() {
            return Err(rejection);
        }
        self.entries.iter_mut().for_each(|entry| entry.charge(cost));
        Ok(())
    }

    /// What each policy has spent so far and could spend at `now`, in the order of the policies.
    #[must_use]
    pub fn policies(&self, now: Duration) -> Vec<PolicyStats> {
        self.entries.iter().map(|entry| entry.stats(nanos(now))).collect()
    }
}

impl Entry {
    fn new(policy: Policy) -> Self {
        Self { bucket: Bucket::full(policy), spent: Amount::ZERO }
    }

    fn refusal(&self, cost: &Cost) -> Option<Rejection> {
        self.bucket.refusal(self.share(cost))
    }

    fn charge(&mut self, cost: &Cost) {
        let share = self.share(cost);
        self.bucket.charge(share);
        self.spent = self.spent.saturating_add(share);
    }

    fn share(&self, cost: &Cost) -> Amount {
        cost.of(self.bucket.policy().unit())
    }

    fn stats(&self, now_ns: u64) -> PolicyStats {
        PolicyStats { policy: self.bucket.policy().clone(), spent: self.spent, level: self.bucket.spendable(now_ns) }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
