//! Prices of keys: the multiple of its cost that a call of a key takes from a guessed limit.
//!
//! Buckets of all keys refill alike. So a key is slower if each of its calls takes more.

use crate::policy::Limit;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A guessed limit with the price of each key. A call of a key without a price takes its cost. The
/// search for key rates bounds the number of keys.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyPrices(BTreeMap<Arc<str>, Limit>);

impl KeyPrices {
    /// `limit` with the price of this key.
    pub(super) fn priced_limit<'a>(&'a self, limit: &'a Limit, key: &str) -> &'a Limit {
        self.0.get(key).filter(|_| limit.spec().guessed).unwrap_or(limit)
    }

    /// Sets the price of a key: its calls take `price` times their cost from `limit`.
    pub(super) fn set(&mut self, limit: &Limit, key: Arc<str>, price: f64) {
        let _former = match price == 1.0 {
            true => self.0.remove(&key),
            false => self.0.insert(key, limit.priced(price)),
        };
    }
}
