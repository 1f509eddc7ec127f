//! Several limits at once: what a request takes of each, and a start that suits all.
//!
//! The search for a start asks the buckets in turn. Each moves the time on to the next one at which
//! it can pay, until all can pay at the same time.

mod key_bucket;
pub mod key_pages;
mod keys;
mod offer;
mod quotas;
mod shadow_limits;
pub mod usage_meter;

pub(crate) use key_bucket::KeyBucket;
pub(crate) use key_pages::PageState;
pub(crate) use offer::{Backlog, Offer};
pub(crate) use shadow_limits::ShadowLimits;
pub(crate) use usage_meter::UsageMeter;

use crate::adaptation::{AdaptiveLimit, ObservedCall};
use crate::limits::{Bucket, BucketReading, CallMade, Freeze, StartKey};
use keys::Keys;
use rampmeter_policy::arithmetic::{Correction, Credit};
use rampmeter_policy::ids::{LimitId, Tier};
use rampmeter_policy::{Bill, BucketName, KeyCharge, Limit, Resource, Succession};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};

/// The buckets of all limits of a resource.
/// Invariants: a start is committed in all buckets of its bill or in none. `adaptive_limits` has
/// the limits of the resource in its order; the buckets of a keyed limit are in `keys`. Every
/// change that may move a start sets `changed`, or is noted in `Keys::changed`.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) adaptive_limits: Vec<AdaptiveLimit>,
    /// Requests that wait for a key are in its queue, which is examined once the key is in
    /// `Keys::changed`. What a key learns is noted there alone; its charges set `changed`, too.
    pub(crate) keys: Keys,
    /// Whether a change may let a waiting request start earlier or later.
    changed: bool,
}

#[derive(Clone, Copy)]
struct Charge<'a> {
    limit: LimitId,
    amount: Amount,
    key: Option<&'a KeyCharge>,
}

impl<'a> Charge<'a> {
    fn of(bill: &'a Bill, limit: LimitId) -> Self {
        Charge { limit, amount: bill.get(limit), key: bill.key_charge(limit) }
    }
}

fn charges(bill: &Bill) -> impl Iterator<Item = Charge<'_>> + Clone {
    let shared = bill.shared().map(|(limit, amount)| Charge { limit, amount, key: None });
    let keyed = bill.keyed().map(|keyed| Charge { limit: keyed.limit, amount: keyed.amount, key: Some(keyed) });
    shared.chain(keyed)
}

impl Ledger {
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        let adaptive_limits =
            resource.limits().iter().map(|limit| AdaptiveLimit::new(limit, resource.spec().start, now));
        Ledger { adaptive_limits: adaptive_limits.collect(), keys: Keys::new(resource, now), changed: false }
    }

    fn read<T>(&self, now: Time, charge: Charge, answer: impl FnOnce(&Bucket, &Limit) -> T) -> T {
        let Some(keyed) = charge.key else {
            let adaptive = self.adaptive(charge.limit);
            return answer(adaptive.bucket(), adaptive.limit());
        };
        let (bucket, limit) = self.keys.bucket(now, keyed.limit, &keyed.key);
        answer(&bucket, limit)
    }

    /// Returns the first keyed limit of the bill that has no room for another key.
    pub(crate) fn limit_without_room(&mut self, now: Time, bill: &Bill) -> Option<LimitId> {
        bill.keyed().find(|charge| !self.keys.has_room_for(now, charge)).map(|charge| charge.limit)
    }

    pub(crate) fn read_each<T>(
        &self,
        now: Time,
        bill: &Bill,
        answer: impl Fn(&Bucket, &Limit) -> T,
    ) -> impl Iterator<Item = T> {
        charges(bill).map(move |charge| self.read(now, charge, &answer))
    }

    fn update<T>(&mut self, now: Time, charge: Charge, change: impl FnOnce(&mut Bucket, &Limit) -> T) -> T {
        self.changed = true;
        match charge.key {
            None => self.adaptive_mut(charge.limit).update(change),
            Some(keyed) => self.keys.update(now, keyed, change),
        }
    }

    pub(crate) fn drain(&mut self, now: Time, is_selected: impl Fn(&Limit) -> bool) {
        for adaptive in self.adaptive_limits.iter_mut().filter(|adaptive| is_selected(adaptive.limit())) {
            adaptive.update(|bucket, limit| bucket.drain(limit, now));
        }
        self.keys.drain(now, is_selected);
        self.changed = true;
    }

    pub(crate) fn adaptive(&self, limit: LimitId) -> &AdaptiveLimit {
        &self.adaptive_limits[limit.index()]
    }

    pub(crate) fn adaptive_mut(&mut self, limit: LimitId) -> &mut AdaptiveLimit {
        self.changed = true;
        &mut self.adaptive_limits[limit.index()]
    }

    /// Returns what a bucket has learned; `None` for a key whose limit counts as written.
    pub(crate) fn learned(&self, (limit, key): &BucketName) -> Option<&AdaptiveLimit> {
        let Some(key) = key else { return Some(self.adaptive(*limit)) };
        self.keys.find(*limit, key).and_then(|slot| self.keys.get(slot)?.adaptive())
    }

    /// Changes what a bucket has learned; `None` for a key whose limit counts as written.
    pub(crate) fn learn_of<T>(
        &mut self,
        now: Time,
        (limit, key): &BucketName,
        change: impl FnOnce(&mut AdaptiveLimit) -> T,
    ) -> Option<T> {
        let Some(key) = key else { return Some(change(self.adaptive_mut(*limit))) };
        self.keys.learn_of(now, self.keys.find(*limit, key)?, change)
    }

    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }

    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Notes a served call that started at `at`: this ends freezes and proves stock.
    pub(crate) fn note_served(&mut self, now: Time, key: StartKey, at: Time, bill: &Bill) {
        for charge in charges(bill) {
            if self.read(now, charge, |bucket, _| bucket.freeze().is_some()) {
                self.update(now, charge, |bucket, _| bucket.thaw(key));
            }
            self.changed |= self.adaptive(charge.limit).is_unproven();
            self.adaptive_limits[charge.limit.index()].note_served(at);
        }
    }

    /// Freezes the bucket that `bill` charges for `limit`. Returns whether starts after `announced`
    /// and within the freeze were promised.
    pub(crate) fn freeze(&mut self, now: Time, bill: &Bill, limit: LimitId, announced: Time, freeze: Freeze) -> bool {
        self.update(now, Charge::of(bill, limit), |bucket, _| {
            bucket.add_freeze(freeze);
            bucket.promises_between(announced, freeze.until)
        })
    }

    /// Learns from a response what is left of a limit. Returns whether it is believed.
    pub(crate) fn learn(&mut self, now: Time, bill: &Bill, limit: LimitId, reading: &BucketReading) -> bool {
        self.update(now, Charge::of(bill, limit), |bucket, limit| bucket.learn(limit, now, reading))
    }

    pub(crate) fn freeze_of(&self, call: ObservedCall<'_>, limit: LimitId) -> Option<Freeze> {
        self.read(call.now, Charge::of(call.bill, limit), |bucket, _| bucket.freeze())
    }

    /// Returns the rest of the window of `limit` that `call` counts in, if it ends by a calendar.
    pub(crate) fn window_end(&self, call: ObservedCall<'_>, limit: LimitId) -> Option<Span> {
        let end = |bucket: &Bucket, limit: &Limit| bucket.window_state(limit, call.now).ends;
        Some(self.read(call.now, Charge::of(call.bill, limit), end)?.since(call.now))
    }

    /// Whether `limit` lacked `more` right after `call`, or now if its level then is forgotten.
    pub(crate) fn lacks_after(&self, call: ObservedCall<'_>, limit: LimitId, more: Amount) -> bool {
        let at = call.at();
        self.read(call.now, Charge::of(call.bill, limit), |bucket, limit| {
            let level = bucket.level_after(limit, at, at).unwrap_or_else(|| bucket.level(limit, call.now));
            level < limit.rate().credit(more)
        })
    }

    /// Whether a freeze of `limit` or of one of its keys, or a spent quota, holds calls.
    pub(crate) fn is_paused(&self, now: Time, limit: LimitId) -> bool {
        let adaptive = self.adaptive(limit);
        let is_frozen = adaptive.bucket().freeze().is_some_and(|freeze| freeze.next_start() > now);
        is_frozen || adaptive.spent_until(now).is_some() || self.keys.frozen_of(limit).next().is_some()
    }

    /// Ends the freeze of `limit` and of some thousand of its keys, and unmarks a spent quota.
    pub(crate) fn thaw(&mut self, now: Time, limit: LimitId) {
        self.adaptive_mut(limit).thaw(now);
        self.keys.thaw(now, limit);
    }

    /// Returns when limits that differ from their configuration are to be reviewed.
    pub(crate) fn next_review(&self) -> Option<Time> {
        let next = |adaptive: &AdaptiveLimit| [adaptive.next_review(), adaptive.bucket().next_expiry()];
        self.adaptive_limits.iter().flat_map(next).flatten().chain(self.keys.next_review()).min()
    }

    pub(crate) fn review(&mut self, now: Time) {
        for adaptive in &mut self.adaptive_limits {
            self.changed |= adaptive.bucket().next_expiry().is_some_and(|expiry| expiry <= now);
            adaptive.advance(now);
            self.changed |= adaptive.review(now);
        }
        self.keys.review(now);
    }

    /// Replaces the limits. A limit that continues keeps its bucket.
    pub(crate) fn change(&mut self, now: Time, resource: &Resource, succession: &Succession) {
        let limits = resource.limits().iter().zip(succession.before());
        let adaptive = |(limit, before): (&Limit, &Option<LimitId>)| match before {
            Some(before) => self.adaptive(*before).recast(now, limit),
            None => AdaptiveLimit::new(limit, resource.spec().start, now),
        };
        self.adaptive_limits = limits.map(adaptive).collect();
        assert_eq!(self.adaptive_limits.len(), resource.limits().len(), "each limit has a bucket");
        self.keys.change(now, resource, succession);
        self.changed = true;
    }

    pub(crate) fn widen(&mut self, resource: &Resource) {
        assert_eq!(self.adaptive_limits.len(), resource.limits().len(), "wider limits are as many");
        self.adaptive_limits.iter_mut().zip(resource.limits()).for_each(|(adaptive, limit)| adaptive.widen(limit));
        self.keys.widen(resource);
    }

    pub(crate) fn anchor(&mut self, now: Time, resource: &Resource) {
        self.adaptive_limits.iter_mut().for_each(|adaptive| adaptive.anchor(now, resource.wall_clock()));
        self.keys.anchor(now, resource);
        self.changed = true;
    }

    pub(crate) fn has_unproven(&self) -> bool {
        self.adaptive_limits.iter().any(AdaptiveLimit::is_unproven)
    }

    /// Returns the first limit whose stock has to be proven before this bill may start.
    pub(crate) fn unproven(&self, now: Time, bill: &Bill) -> Option<LimitId> {
        bill.shared().find(|(id, amount)| !self.adaptive(*id).is_proven(now, *amount)).map(|(id, _)| id)
    }

    pub(crate) fn note_start(&mut self, at: Time, bill: &Bill) {
        bill.shared().for_each(|(id, _)| self.adaptive_limits[id.index()].note_start(at));
    }

    pub(crate) fn advance(&mut self, now: Time) {
        self.adaptive_limits.iter_mut().for_each(|adaptive| adaptive.advance(now));
        self.keys.advance(now);
    }

    /// Returns the earliest start from `from` on that all buckets of the bill can pay.
    pub(crate) fn earliest(&self, from: Time, bill: &Bill, tier: Tier) -> Offer {
        self.search(from, bill, tier, |_| true)
    }

    /// Returns the earliest start from `from` on, as if all calls in flight had ended.
    pub(crate) fn earliest_once_settled(&self, from: Time, bill: &Bill, tier: Tier) -> Time {
        let may_open = |charge: &Charge| {
            self.adaptive(charge.limit).limit().counts_calls_in_flight() || self.expects_settles(from, *charge)
        };
        self.search(from, bill, tier, |charge| !may_open(charge)).at
    }

    /// Returns what is left of the limit's bucket for the bill.
    pub(crate) fn left(&self, now: Time, bill: &Bill, limit: LimitId) -> Amount {
        let left = self.read(now, Charge::of(bill, limit), |bucket, limit| {
            limit.rate().micros(bucket.level(limit, now).max(Credit::ZERO))
        });
        u64::try_from(left).ok().and_then(|micros| Amount::from_micros(micros).ok()).unwrap_or_default()
    }

    /// Returns how many calls of this bill the levels of its buckets pay for, rounded up.
    pub(crate) fn calls_left(&self, now: Time, bill: &Bill) -> u64 {
        let left = charges(bill).map(|charge| {
            self.read(now, charge, |bucket, limit| {
                bucket.level(limit, now).max(Credit::ZERO).div_ceil(limit.rate().credit(charge.amount))
            })
        });
        left.min().unwrap_or(u64::MAX)
    }

    /// Returns the limit without keys that can pay its charge last, if it cannot by `latest`.
    pub(crate) fn blocking_shared_limit(&self, now: Time, bill: &Bill, tier: Tier, latest: Time) -> Option<LimitId> {
        let pays = |limit| {
            let charge = Charge::of(bill, limit);
            self.read(now, charge, |bucket, limit| bucket.earliest(limit, now, limit.start_cost(charge.amount, tier)))
        };
        let last = bill.shared().map(|(limit, _)| (pays(limit), limit)).max();
        last.filter(|(at, _)| *at > latest).map(|(_, limit)| limit)
    }

    /// Searches for the earliest start that all selected buckets can pay.
    fn search(&self, from: Time, bill: &Bill, tier: Tier, counts: impl Fn(&Charge) -> bool) -> Offer {
        let mut offer = Offer { at: from, limited_by: None };
        let asked = charges(bill).filter(|charge| counts(charge));
        let (mut agreeing, all) = (0, asked.clone().count());
        for charge in asked.cycle() {
            let at = self.read(from, charge, |bucket, limit| {
                bucket.earliest(limit, offer.at, limit.start_cost(charge.amount, tier))
            });
            if at > offer.at {
                offer = Offer { at, limited_by: Some(charge.limit) };
                agreeing = 0;
            }
            agreeing += 1;
            if agreeing == all {
                break;
            }
        }
        offer
    }

    /// Ends a call in flight of a predecessor, whose permit is unknown. Returns whether a place was kept for it.
    pub(crate) fn end_inherited(&mut self, now: Time, bill: &Bill) -> bool {
        charges(bill).fold(false, |freed, charge| {
            let end = |bucket: &mut Bucket, limit: &Limit| {
                bucket.end_inherited(limit, now, limit.start_cost(charge.amount, Tier::NO_HEADROOM))
            };
            self.update(now, charge, end) || freed
        })
    }

    /// Extends the call's leases; false if another call may have been promised its place.
    pub(crate) fn renew(&mut self, now: Time, key: StartKey, bill: &Bill) -> bool {
        charges(bill).fold(true, |fits, charge| {
            let renew = |bucket: &mut Bucket, limit: &Limit| {
                bucket.renew(limit, now, key, limit.start_cost(charge.amount, Tier::NO_HEADROOM))
            };
            self.update(now, charge, renew) && fits
        })
    }

    /// Returns the leases of the call of `key` that have not ended, by limit.
    pub(crate) fn leases(&self, now: Time, key: StartKey, bill: &Bill) -> impl Iterator<Item = (LimitId, Time)> {
        let holding = |charge: &Charge| self.adaptive(charge.limit).limit().counts_calls_in_flight();
        charges(bill).filter(holding).filter_map(move |charge| {
            let end = self.read(now, charge, |bucket, _| bucket.lease_end(key)).filter(|end| *end > now)?;
            Some((charge.limit, end))
        })
    }

    /// Returns when the last lease of the call of `key` ends, or its start if it has none.
    pub(crate) fn lease_end(&self, now: Time, key: StartKey, bill: &Bill) -> Time {
        self.leases(now, key, bill).map(|(_, end)| end).fold(key.at, Time::max)
    }

    pub(crate) fn commit(&mut self, now: Time, key: StartKey, bill: &Bill, tier: Tier) {
        for charge in charges(bill) {
            self.update(now, charge, |bucket, limit| {
                bucket.commit(limit, now, key, limit.start_cost(charge.amount, tier));
            });
        }
    }

    pub(crate) fn withdraw(&mut self, now: Time, key: StartKey, bill: &Bill) {
        for charge in charges(bill) {
            let known = self.update(now, charge, |bucket, limit| bucket.withdraw(limit, key));
            assert!(known, "a promise is in every bucket of its bill");
        }
    }

    /// Withdraws held starts at the end of a dispatch. Nothing counts as changed: the dispatch has
    /// handled earlier changes, and the buckets are as they were before the holds.
    pub(crate) fn withdraw_holds<'a>(&mut self, now: Time, holds: impl Iterator<Item = (StartKey, &'a Bill)>) {
        let noted = std::mem::take(&mut self.keys.changed);
        holds.for_each(|(start, bill)| self.withdraw(now, start, bill));
        self.keys.changed = noted;
        self.changed = false;
    }

    pub(crate) fn correct(&mut self, now: Time, key: StartKey, charged: &Bill, actual: &Bill, made: CallMade) {
        for limit in charged.limits() {
            let (charge, actual) = (Charge::of(charged, limit), actual.get(limit));
            let ends = charge.amount > Amount::ZERO && self.adaptive(limit).limit().counts_calls_in_flight();
            let ends_jitter = made == CallMade::Answered
                && self.read(now, charge, |bucket, limit| bucket.sooner_end(limit, now, key)).is_some();
            if ends && made != CallMade::No {
                self.adaptive_mut(limit).note_call_time(now.since(key.at));
            }
            let is_awaited = charge.amount > Amount::ZERO && self.adaptive(limit).limit().is_quota();
            if ends || ends_jitter || is_awaited || charge.amount != actual {
                self.update(now, charge, |bucket, limit| {
                    let credit = |amount| limit.rate().credit(amount);
                    let correction = Correction { charged: credit(charge.amount), actual: credit(actual) };
                    bucket.correct(limit, now, key, correction, made);
                });
            }
        }
    }

    /// Returns when no bucket of the bill is frozen and each has paid its promises, its backlog and
    /// its charge of the bill, with the limit that is the last to do so.
    pub(crate) fn paid_after(
        &self,
        now: Time,
        backlog: &Backlog,
        key_backlog: impl Fn(&KeyCharge) -> Credit,
        bill: &Bill,
        tier: Tier,
    ) -> Offer {
        let mut latest = Offer { at: now, limited_by: None };
        for charge in charges(bill) {
            let behind = charge.key.map_or_else(|| backlog.of(charge.limit), &key_backlog);
            let at = self.read(now, charge, |bucket, limit| {
                let paid = bucket.paid_after(limit, now, behind, limit.start_cost(charge.amount, tier));
                bucket.freeze().map_or(paid, |freeze| paid.max(freeze.until))
            });
            if at > latest.at {
                latest = Offer { at, limited_by: Some(charge.limit) };
            }
        }
        latest
    }

    /// Commits a start that the levels have already paid for, with its known leases. A past start
    /// keeps the places that its call still holds.
    pub(crate) fn restore_promise(
        &mut self,
        now: Time,
        key: StartKey,
        bill: &Bill,
        tier: Tier,
        leases: &[(LimitId, Time)],
    ) {
        for charge in charges(bill) {
            let lease = leases.iter().find(|(leased, _)| *leased == charge.limit).map(|(_, end)| *end);
            if key.at > now || lease.is_some_and(|end| end > now) {
                self.update(now, charge, |bucket, limit| {
                    bucket.commit_paid(limit, now, key, limit.start_cost(charge.amount, tier), lease);
                });
            }
        }
    }
}
