//! The accounts of one upstream: one for all calls, and one for each key of a limit.

use rampmeter_protocol::labels::Labels;
use rampmeter_upstream::{Account, Cost, Policy, Rejection};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

/// The accounts that a call is charged to.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    pub(crate) shared: Account,
    by_key: Vec<ByKey>,
}

/// A policy with an account for each combination of values of these labels.
#[derive(Clone, Debug)]
pub(crate) struct ByKey {
    pub(crate) labels: Vec<String>,
    pub(crate) policy: Policy,
    pub(crate) accounts: BTreeMap<Vec<String>, Account>,
}

impl Accounts {
    pub(crate) fn new(shared: Vec<Policy>, concurrency: Option<NonZeroUsize>, by_key: Vec<ByKey>) -> Self {
        let shared = Account::new(shared);
        let shared = match concurrency {
            Some(calls) => shared.with_concurrency(calls),
            None => shared,
        };
        Accounts { shared, by_key }
    }

    /// Charges a call that arrives at `now` to each of its accounts, or to none.
    ///
    /// # Errors
    /// The rejection of the first account that cannot pay.
    pub(crate) fn admit(&mut self, now: Duration, labels: &Labels<'_>, cost: &Cost) -> Result<(), Rejection> {
        let mut charged = Vec::new();
        for (number, of_limit) in self.by_key.iter().enumerate() {
            let Some(key) = of_limit.key(labels) else { continue };
            let mut account = of_limit.account(&key);
            account.admit(now, cost)?;
            charged.push((number, key, account));
        }
        self.shared.admit(now, cost)?;
        for (number, key, account) in charged {
            self.by_key[number].accounts.insert(key, account);
        }
        Ok(())
    }
}

impl ByKey {
    /// `None` for a call that lacks one of the labels.
    fn key(&self, labels: &Labels<'_>) -> Option<Vec<String>> {
        self.labels.iter().map(|label| labels.get(label).map(str::to_owned)).collect()
    }

    fn account(&self, key: &[String]) -> Account {
        self.accounts.get(key).cloned().unwrap_or_else(|| Account::new(vec![self.policy.clone()]))
    }
}
