//! What checkpoints and snapshots say of keys, and what a successor restores of it.

use super::key_pages::{KeyPageId, KeyPages};
use super::{KeyBucket, Ledger};
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::ids::LimitId;
use crate::limits::Bucket;
use crate::policy::{KeyCharge, KeyName};
use rampmeter_protocol::time::Time;
use std::sync::Arc;

impl Ledger {
    /// The buckets of all keys that have one.
    pub(crate) fn key_buckets(&self) -> impl Iterator<Item = &KeyBucket> {
        self.keys.iter()
    }

    /// The bucket that a key of `limit` gets with its first charge.
    pub(crate) fn absent_key(&self, now: Time, limit: LimitId) -> Bucket {
        self.keys.absent(limit, now)
    }

    /// When every key of `limit` without a bucket was empty at the latest; none if they are full.
    pub(crate) fn absent_keys_empty_at(&self, now: Time, limit: LimitId) -> Option<Time> {
        self.keys.empty_at(now, limit)
    }

    /// How many keys of limits whose keys checkpoints list are on no page.
    pub(crate) fn count_keys_in_use(&self) -> usize {
        self.keys.in_use()
    }

    /// At most `most` keys in use; keys that are full again are dropped from these.
    pub(crate) fn keys_in_use(&mut self, now: Time, most: usize) -> Vec<KeyName> {
        self.keys.keys_in_use(now, most)
    }

    /// Frozen keys and the ends of their freezes, the last first.
    pub(crate) fn frozen_keys(&mut self, now: Time) -> impl Iterator<Item = (Time, &KeyBucket)> {
        self.keys.frozen(now)
    }

    /// Keys of short limits with far debts, and when these are paid, the last first.
    pub(crate) fn far_debts_of_short_limits(&self, now: Time) -> impl Iterator<Item = (Time, &KeyBucket)> {
        self.keys.far_debts_of_short_limits(now)
    }

    /// The same for limits whose keys checkpoints list.
    pub(crate) fn far_debts_of_listed_limits(&self, now: Time) -> impl Iterator<Item = (Time, &KeyBucket)> {
        self.keys.far_debts_of_listed_limits(now)
    }

    /// The pages that checkpoints name.
    pub(crate) fn pages(&self) -> &KeyPages {
        &self.keys.pages
    }

    pub(crate) fn pages_mut(&mut self) -> &mut KeyPages {
        &mut self.keys.pages
    }

    /// Notes that a page records these keys as they are, but for grants since then.
    pub(crate) fn add_page(&mut self, id: KeyPageId, as_of: Time, granted_since: Vec<Credit>, keys: Vec<Slot>) {
        self.keys.add_page(id, as_of, granted_since, keys);
    }

    /// Takes the keys of a sparse page into use, so that checkpoints list them again.
    pub(crate) fn reuse_sparse_page(&mut self) {
        self.keys.reuse_sparse_page();
    }

    /// Gives a key the bucket that it had at `then`.
    pub(crate) fn restore_key(&mut self, limit: LimitId, key: Arc<str>, then: Time, was: Bucket) -> Slot {
        self.keys.restore(limit, key, then, was)
    }

    /// Freezes a key until `until`, as it was frozen at `then`.
    pub(crate) fn restore_key_freeze(&mut self, then: Time, charge: &KeyCharge, until: Time) {
        self.keys.update(then, charge, |bucket, _| bucket.freeze_until(until));
    }

    /// Sets the bucket that a key of `limit` gets with its first charge.
    pub(crate) fn restore_absent_keys(&mut self, limit: LimitId, bucket: Bucket) {
        self.keys.set_absent(limit, bucket);
    }

    /// Takes the whole stock of all keys.
    pub(crate) fn drain_keys(&mut self, now: Time) {
        self.keys.drain(now, |_| true);
    }
}
