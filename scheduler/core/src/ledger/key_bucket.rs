//! The bucket of one key.

use super::key_pages::PageNumber;
use crate::arithmetic::Credit;
use crate::ids::LimitId;
use crate::limits::{Bucket, NEAR};
use crate::policy::Limit;
use rampmeter_protocol::time::Time;

/// The bucket of one key, which only [`Keys`](super::keys::Keys) changes, so that its sets stay true.
#[derive(Clone, Debug)]
pub(crate) struct KeyBucket {
    pub(crate) limit: LimitId,
    /// Not shared, so it needs no reference counts.
    pub(crate) key: Box<str>,
    pub(crate) bucket: Bucket,
    /// Whether requests wait for this very bucket.
    pub(super) is_awaited: bool,
    /// The page whose record of the bucket is up to date.
    pub(crate) page: Option<PageNumber>,
}

impl KeyBucket {
    /// When the last promise has started and all debts are paid, if that is far.
    pub(super) fn far_debt_until(&self, limit: &Limit, now: Time) -> Option<Time> {
        let used = self.bucket.last_promise().max(self.bucket.last_use_ahead(limit, now));
        let owes = used.is_some() || self.bucket.level(limit, now) < Credit::ZERO;
        let paid = || used.unwrap_or(now).max(self.bucket.next_free(limit, now));
        owes.then(paid).filter(|paid| *paid > now + NEAR)
    }

    /// When the next promise starts or reported usage expires.
    pub(super) fn due(&self) -> Option<Time> {
        self.bucket.next_promise().into_iter().chain(self.bucket.next_expiry()).min()
    }

    pub(super) fn frozen_until(&self) -> Option<Time> {
        self.bucket.freeze().map(|freeze| freeze.until())
    }
}
