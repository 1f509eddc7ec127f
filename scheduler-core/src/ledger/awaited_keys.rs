//! Keys that requests wait for: which buckets these are, and which of them have changed.

use super::{KeyBucket, Ledger};
use crate::collections::Slot;
use crate::ids::LimitId;
use crate::policy::KeyCharge;
use rampmeter_protocol::time::Time;

impl Ledger {
    /// The slot of a key's bucket, if the key has one.
    pub(crate) fn find_key(&self, limit: LimitId, key: &str) -> Option<Slot> {
        self.keys.find(limit, key)
    }

    pub(crate) fn key_at(&self, bucket: Slot) -> Option<&KeyBucket> {
        self.keys.get(bucket)
    }

    /// Notes that requests wait for the key of `charge`. Returns its bucket, which is made if there
    /// is none.
    pub(crate) fn insert_awaited(&mut self, now: Time, charge: &KeyCharge) -> Slot {
        let bucket = self.keys.find_or_insert(now, charge);
        self.keys.set_awaited(bucket, true);
        bucket
    }

    /// Notes whether requests wait for a bucket. If so, it is kept and its changes are noted.
    pub(crate) fn set_awaited(&mut self, bucket: Slot, is_awaited: bool) {
        self.keys.set_awaited(bucket, is_awaited);
    }

    /// Notes that these buckets have changed, as far as requests wait for them.
    pub(crate) fn note_changed_keys(&mut self, buckets: impl IntoIterator<Item = Slot>) {
        buckets.into_iter().for_each(|bucket| self.keys.note_change(bucket));
    }

    pub(crate) fn has_changed_keys(&self) -> bool {
        self.keys.have_changed()
    }

    /// A bucket that has changed while requests wait for it.
    pub(crate) fn pop_changed_key(&mut self) -> Option<Slot> {
        self.keys.pop_changed()
    }
}
