//! What calls of a key take of a limit that is a guess, as a multiple of their cost.
//!
//! Buckets of all keys refill alike. So a key is slower if each of its calls takes more.

use crate::policy::Limit;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The limit as calls of a key take of it, by key. A key without a price takes the cost itself. The
/// guess bounds the number of keys.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyPrices(BTreeMap<Arc<str>, Limit>);

impl KeyPrices {
    /// `limit` as a call of this key takes of it.
    pub(super) fn priced_limit<'a>(&'a self, limit: &'a Limit, key: &str) -> &'a Limit {
        self.0.get(key).filter(|_| limit.spec().guessed).unwrap_or(limit)
    }

    /// A call of this key takes `price` times its cost of `limit` from now on.
    pub(super) fn set(&mut self, limit: &Limit, key: Arc<str>, price: f64) {
        let _former = match price == 1.0 {
            true => self.0.remove(&key),
            false => self.0.insert(key, limit.priced(price)),
        };
    }
}
