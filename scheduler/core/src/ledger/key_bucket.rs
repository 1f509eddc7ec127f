//! The bucket of a key, and its limit if that is adapted.

use super::key_pages::PageNumber;
use crate::adaptation::AdaptiveLimit;
use crate::limits::{Bucket, NEAR};
use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::spec::StartPolicy;
use rampmeter_policy::{Limit, Resource};
use rampmeter_protocol::time::Time;

/// The bucket of one key, which only [`Keys`](super::keys::Keys) changes, so that its sets stay
/// true. `written` always means the limits of the resource.
#[derive(Clone, Debug)]
pub(crate) struct KeyBucket {
    pub(crate) limit: LimitId,
    /// Not shared, so it needs no reference counts.
    pub(crate) key: Box<str>,
    enforced: Enforced,
    pub(super) is_awaited: bool,
    /// When its far debt is paid, if it has one.
    pub(super) far_paid: Time,
    /// The page that records the bucket as it is.
    pub(crate) page: Option<PageNumber>,
}

#[derive(Clone, Debug)]
enum Enforced {
    Written(Bucket),
    Adaptive(Box<AdaptiveLimit>),
}

impl KeyBucket {
    pub(super) fn new(limit: LimitId, key: Box<str>, bucket: Bucket) -> Self {
        let enforced = Enforced::Written(bucket);
        KeyBucket { limit, key, enforced, is_awaited: false, far_paid: Time::ORIGIN, page: None }
    }

    pub(crate) fn bucket(&self) -> &Bucket {
        match &self.enforced {
            Enforced::Written(bucket) => bucket,
            Enforced::Adaptive(adaptive) => adaptive.bucket(),
        }
    }

    pub(crate) fn in_force<'a>(&'a self, written: &'a [Limit]) -> (&'a Bucket, &'a Limit) {
        (self.bucket(), self.adaptive().map_or(&written[self.limit.index()], AdaptiveLimit::limit))
    }

    /// Returns what the key has learned; `None` if its limit counts as written.
    pub(crate) fn adaptive(&self) -> Option<&AdaptiveLimit> {
        if let Enforced::Adaptive(adaptive) = &self.enforced { Some(adaptive) } else { None }
    }

    pub(super) fn adaptive_mut(&mut self) -> Option<&mut AdaptiveLimit> {
        if let Enforced::Adaptive(adaptive) = &mut self.enforced { Some(adaptive) } else { None }
    }

    pub(super) fn update<T>(&mut self, written: &[Limit], change: impl FnOnce(&mut Bucket, &Limit) -> T) -> T {
        match &mut self.enforced {
            Enforced::Written(bucket) => change(bucket, &written[self.limit.index()]),
            Enforced::Adaptive(adaptive) => adaptive.update(change),
        }
    }

    pub(super) fn begin_to_adapt(&mut self, now: Time, written: &[Limit]) {
        if let Enforced::Written(bucket) = &self.enforced {
            let mut adaptive = AdaptiveLimit::new(&written[self.limit.index()], StartPolicy::Empty, now);
            adaptive.begin_with(|_| bucket.clone());
            self.enforced = Enforced::Adaptive(Box::new(adaptive));
        }
    }

    /// Continues under another limit. What was learned is forgotten.
    pub(super) fn recast(&mut self, now: Time, before: &[Limit], to: &Limit) {
        let (bucket, was) = self.in_force(before);
        if was != to {
            self.enforced = Enforced::Written(bucket.recast(now, was, to));
        }
    }

    pub(super) fn anchor(&mut self, now: Time, before: &[Limit], resource: &Resource) {
        match &mut self.enforced {
            Enforced::Written(bucket) => bucket.anchor(now, &before[self.limit.index()], &resource[self.limit]),
            Enforced::Adaptive(adaptive) => adaptive.anchor(now, resource.wall_clock()),
        }
    }

    /// Returns when the last promise has started and all debts are paid, if that is far.
    pub(super) fn far_debt_until(&self, written: &[Limit], now: Time) -> Option<Time> {
        let (bucket, limit) = self.in_force(written);
        let used = bucket.last_promise().max(bucket.last_use_ahead(limit, now));
        let owes = used.is_some() || bucket.level(limit, now) < Credit::ZERO;
        let paid = || used.unwrap_or(now).max(bucket.next_free(limit, now));
        owes.then(paid).filter(|paid| *paid > now + NEAR)
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.bucket().next_promise().into_iter().chain(self.bucket().next_expiry()).min()
    }

    pub(super) fn frozen_until(&self) -> Option<Time> {
        self.bucket().freeze().map(|freeze| freeze.until)
    }
}
