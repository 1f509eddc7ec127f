//! All buckets of a resource, and starts that suit every one of them.

use crate::bill::Bill;
use crate::bucket::{Bucket, Draw};
use crate::credit::Credit;
use crate::limit::{Limit, Tier};
use crate::refusal::Refusal;
use crate::resource::{LimitId, Resource};
use crate::spec;
use crate::timeline::Key;
use rampmeter_protocol::time::Time;

/// A start that every bucket of its bill can pay, and the limit that kept it from being earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) at: Time,
    pub(crate) limited_by: Option<LimitId>,
}

impl Offer {
    /// The refusal of one that can't wait so long.
    pub(crate) fn not_in_time(self, now: Time) -> Refusal {
        Refusal::NotInTime { retry_after: self.at.since(now), limited_by: self.limited_by }
    }
}

/// The buckets. All or nothing: what is not committed changes none of them.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    buckets: Vec<Bucket>,
}

impl Ledger {
    /// Buckets of a store that never knew the resource.
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        let fresh = |limit: &Limit| Bucket::new(limit, now, fresh_level(resource, limit));
        Ledger { buckets: resource.limits().iter().map(fresh).collect() }
    }

    /// Puts the bucket of `limit` at `level`, without any promise.
    pub(crate) fn reset(&mut self, resource: &Resource, limit: LimitId, now: Time, level: Credit) {
        self.buckets[limit.index()] = Bucket::new(&resource.limits()[limit.index()], now, level);
    }

    pub(crate) fn advance(&mut self, resource: &Resource, now: Time) {
        for (bucket, limit) in self.buckets.iter_mut().zip(resource.limits()) {
            bucket.advance(limit, now);
        }
    }

    /// The earliest start from `from` on that all buckets of the bill can pay: each bucket moves it
    /// to its own next possibility until none does.
    pub(crate) fn earliest(&self, resource: &Resource, from: Time, bill: &Bill, tier: Tier) -> Offer {
        let mut offer = Offer { at: from, limited_by: None };
        let mut agreeing = 0;
        for (id, amount) in bill.iter().cycle() {
            let limit = &resource.limits()[id.index()];
            let draw = Draw { cost: limit.rate().credit(amount), tier };
            let at = self.buckets[id.index()].earliest(limit, offer.at, draw);
            if at > offer.at {
                offer = Offer { at, limited_by: Some(id) };
                agreeing = 0;
            }
            agreeing += 1;
            if agreeing >= bill.len() {
                break;
            }
        }
        offer
    }

    pub(crate) fn commit(&mut self, resource: &Resource, now: Time, key: Key, bill: &Bill, tier: Tier) {
        for (id, amount) in bill.iter() {
            let limit = &resource.limits()[id.index()];
            let draw = Draw { cost: limit.rate().credit(amount), tier };
            self.buckets[id.index()].commit(limit, now, key, draw);
        }
    }

    /// Takes a promised start back from every bucket of its bill.
    pub(crate) fn withdraw(&mut self, resource: &Resource, key: Key, bill: &Bill) {
        for (id, _) in bill.iter() {
            let known = self.buckets[id.index()].withdraw(&resource.limits()[id.index()], key);
            assert!(known, "a promise is in every bucket of its bill");
        }
    }

    /// Corrects what a call that started at `since` took, from `charged` to `actual`.
    pub(crate) fn correct(&mut self, resource: &Resource, now: Time, since: Time, charged: &Bill, actual: &Bill) {
        for (index, limit) in resource.limits().iter().enumerate() {
            let id = LimitId(index as u8);
            let (was, is) = (limit.rate().credit(charged.get(id)), limit.rate().credit(actual.get(id)));
            if is < was {
                self.buckets[index].refund(limit, now, since, was - is);
            } else if is > was {
                self.buckets[index].debit(limit, now, is - was);
            }
        }
    }

    /// When everything promised, the backlog of each bucket and the bill have been paid.
    pub(crate) fn paid_behind(
        &self,
        resource: &Resource,
        now: Time,
        backlog: &Backlog,
        bill: &Bill,
        tier: Tier,
    ) -> Offer {
        let mut latest = Offer { at: now, limited_by: None };
        for (id, amount) in bill.iter() {
            let limit = &resource.limits()[id.index()];
            let draw = Draw { cost: limit.rate().credit(amount), tier };
            let at = self.buckets[id.index()].paid_behind(limit, now, backlog.of(id), draw);
            if at > latest.at {
                latest = Offer { at, limited_by: Some(id) };
            }
        }
        latest
    }

    /// Commits a start whose cost the levels have in them already.
    pub(crate) fn promise_again(&mut self, resource: &Resource, now: Time, key: Key, bill: &Bill, tier: Tier) {
        for (id, amount) in bill.iter() {
            let limit = &resource.limits()[id.index()];
            let draw = Draw { cost: limit.rate().credit(amount), tier };
            self.buckets[id.index()].promise_again(limit, now, key, draw);
        }
    }

    /// When the level of `limit` is above zero, seen from `now`.
    pub(crate) fn next_free(&self, resource: &Resource, limit: LimitId, now: Time) -> Time {
        let draw = Draw { cost: Credit::ZERO, tier: 0 };
        self.buckets[limit.index()].paid_behind(&resource.limits()[limit.index()], now, Credit::ZERO, draw)
    }

    pub(crate) fn level(&self, resource: &Resource, limit: LimitId, now: Time) -> Credit {
        self.buckets[limit.index()].level(&resource.limits()[limit.index()], now)
    }
}

fn fresh_level(resource: &Resource, limit: &Limit) -> Credit {
    match resource.start() {
        spec::Start::Full => limit.full(),
        spec::Start::Empty => Credit::ZERO,
    }
}

/// What waiting requests will take from each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog(Vec<Credit>);

impl Backlog {
    pub(crate) fn none(resource: &Resource) -> Self {
        Backlog(vec![Credit::ZERO; resource.limits().len()])
    }

    pub(crate) fn add(&mut self, resource: &Resource, bill: &Bill) {
        for (id, amount) in bill.iter() {
            self.0[id.index()] += resource.limits()[id.index()].rate().credit(amount);
        }
    }

    /// Makes this what `bill` takes, and nothing else.
    pub(crate) fn reset_to(&mut self, resource: &Resource, bill: &Bill) {
        self.0.fill(Credit::ZERO);
        self.add(resource, bill);
    }

    pub(crate) fn add_all(&mut self, other: &Backlog) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine += *theirs);
    }

    fn of(&self, limit: LimitId) -> Credit {
        self.0[limit.index()]
    }
}
