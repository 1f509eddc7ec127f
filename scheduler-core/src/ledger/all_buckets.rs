//! All buckets of a resource, and starts that suit every one of them.

use super::keys::Keys;
use crate::adaptation::AdaptiveLimit;
use crate::arithmetic::Credit;
use crate::ids::{LimitId, Tier};
use crate::limits::{Bucket, StartKey};
use crate::policy::{Bill, KeyCharge, Limit, LimitSet, Resource, Succession};
use crate::refusal::Refusal;
use rampmeter_protocol::amount::Amount;
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
        match self.limited_by {
            // What others wait for may be all that is left of a quota that is never reset.
            Some(limit) if self.at == Time::NEVER => Refusal::QuotaSpent { limit, retry_after: None },
            limited_by => Refusal::NotInTime { retry_after: self.at.since(now), limited_by },
        }
    }
}

/// The buckets. All or nothing: what is not committed changes none of them.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    adaptive_limits: Vec<AdaptiveLimit>,
    pub(crate) keys: Keys,
    /// Whether anything has changed since this was last asked by which a waiting request may start earlier or later.
    changed: bool,
}

/// A bucket that a bill charges.
#[derive(Clone, Copy)]
struct Account<'a> {
    limit: LimitId,
    amount: Amount,
    /// The key, if the limit has a bucket for each.
    key: Option<&'a KeyCharge>,
}

impl<'a> Account<'a> {
    fn of(bill: &'a Bill, limit: LimitId) -> Self {
        Account { limit, amount: bill.get(limit), key: bill.key_charge(limit) }
    }
}

/// All that a bill charges.
fn accounts(bill: &Bill) -> impl Iterator<Item = Account<'_>> + Clone {
    let shared = bill.iter().map(|(limit, amount)| Account { limit, amount, key: None });
    let keyed = bill.keyed().map(|charge| Account { limit: charge.limit, amount: charge.amount, key: Some(charge) });
    shared.chain(keyed)
}

impl Ledger {
    /// Buckets of a store that never knew the resource.
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        let adaptive_limits =
            resource.limits().iter().map(|limit| AdaptiveLimit::new(limit, resource.spec().start, now));
        Ledger { adaptive_limits: adaptive_limits.collect(), keys: Keys::new(resource, now), changed: false }
    }

    /// What a bucket says, from `now` on.
    fn look<T>(&self, now: Time, account: Account, say: impl FnOnce(&Bucket, &Limit) -> T) -> T {
        let AdaptiveLimit { bucket, limit, .. } = self.book(account.limit);
        match account.key {
            None => say(bucket, limit),
            Some(charge) => say(&self.keys.bucket(now, charge), limit),
        }
    }

    /// What each bucket of the bill says, from `now` on.
    pub(crate) fn survey<T>(
        &self,
        now: Time,
        bill: &Bill,
        say: impl Fn(&Bucket, &Limit) -> T,
    ) -> impl Iterator<Item = T> {
        accounts(bill).map(move |account| self.look(now, account, &say))
    }

    /// Changes a bucket.
    fn touch<T>(&mut self, now: Time, account: Account, change: impl FnOnce(&mut Bucket, &Limit) -> T) -> T {
        self.changed = true;
        let AdaptiveLimit { bucket, limit, .. } = &mut self.adaptive_limits[account.limit.index()];
        match account.key {
            None => change(bucket, limit),
            Some(charge) => self.keys.touch(now, charge, change),
        }
    }

    /// Takes everything that is in stock of the limits that are meant.
    pub(crate) fn empty(&mut self, now: Time, is_meant: impl Fn(&Limit) -> bool) {
        for AdaptiveLimit { bucket, limit, .. } in self.adaptive_limits.iter_mut().filter(|book| is_meant(&book.limit))
        {
            bucket.drain(limit, now);
        }
        self.keys.empty(now, is_meant);
        self.changed = true;
    }

    pub(crate) fn adaptive_limits(&self) -> impl Iterator<Item = &AdaptiveLimit> {
        self.adaptive_limits.iter()
    }

    pub(crate) fn book(&self, limit: LimitId) -> &AdaptiveLimit {
        &self.adaptive_limits[limit.index()]
    }

    pub(crate) fn adaptive_mut(&mut self, limit: LimitId) -> &mut AdaptiveLimit {
        self.changed = true;
        &mut self.adaptive_limits[limit.index()]
    }

    /// Notes a change that may let a waiting request start earlier or later.
    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }

    /// Whether anything has changed since this was last asked.
    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Notes that a call which started at `at` was served. This changes something only of a frozen bucket, or of one in doubt.
    pub(crate) fn note_served(&mut self, now: Time, key: StartKey, at: Time, bill: &Bill) {
        for account in accounts(bill) {
            if self.look(now, account, |bucket, _| bucket.freeze().is_some()) {
                self.touch(now, account, |bucket, _| bucket.thaw(key));
            }
            if self.book(account.limit).slow_start.is_some() {
                self.adaptive_mut(account.limit).note_served(at);
            }
        }
    }

    /// Nobody starts before `until` in the bucket of `limit` that the bill charges. Whether that breaks promises behind `told`.
    pub(crate) fn freeze(&mut self, now: Time, bill: &Bill, limit: LimitId, told: Time, until: Time) -> bool {
        self.touch(now, Account::of(bill, limit), |bucket, _| {
            bucket.freeze_until(until);
            bucket.promises_between(told, until)
        })
    }

    /// When limits are to be [reviewed](Ledger::review), if any differs from what is configured.
    pub(crate) fn next_review(&self) -> Option<Time> {
        self.adaptive_limits.iter().filter_map(|book| book.estimator.next_review()).min()
    }

    /// Keeps limits as what was learned of them says now.
    pub(crate) fn review(&mut self, now: Time) {
        for book in &mut self.adaptive_limits {
            self.changed |= book.review(now);
        }
    }

    /// Goes on under other limits: those that go on keep their buckets.
    pub(crate) fn change(&mut self, now: Time, resource: &Resource, succession: &Succession) {
        let limits = resource.limits().iter().zip(succession.before());
        let book = |(limit, before): (&Limit, &Option<LimitId>)| match before {
            Some(before) => self.book(*before).recast(now, limit),
            None => AdaptiveLimit::new(limit, resource.spec().start, now),
        };
        self.adaptive_limits = limits.map(book).collect();
        self.keys.change(now, resource, succession);
    }

    /// The wall clock showed something else at the origin of time.
    pub(crate) fn anchor(&mut self, now: Time, unix_at_origin: u64) {
        self.adaptive_limits.iter_mut().for_each(|book| book.anchor(now, unix_at_origin));
        self.keys.anchor(now, unix_at_origin);
    }

    /// Whether there is stock that is not proven yet.
    pub(crate) fn is_doubted(&self) -> bool {
        self.adaptive_limits.iter().any(|book| book.slow_start.is_some())
    }

    /// The first limit whose stock has to be proven before this may start.
    pub(crate) fn unproven(&self, now: Time, bill: &Bill) -> Option<LimitId> {
        bill.iter().find(|(id, amount)| !self.book(*id).is_proven(now, *amount)).map(|(id, _)| id)
    }

    /// Notes that a call was promised a start.
    pub(crate) fn note_start(&mut self, at: Time, bill: &Bill) {
        for (id, _) in bill.iter() {
            if let Some(slow_start) = &mut self.adaptive_limits[id.index()].slow_start {
                slow_start.note_start(at);
            }
        }
    }

    pub(crate) fn advance(&mut self, now: Time) {
        self.adaptive_limits.iter_mut().for_each(|book| book.advance(now));
        self.keys.advance(now);
    }

    /// The earliest start from `from` on that all buckets of the bill can pay.
    pub(crate) fn earliest(&self, from: Time, bill: &Bill, tier: Tier) -> Offer {
        self.search(from, bill, tier, |_| true)
    }

    /// The earliest start from `from` on, should all calls in flight be over then.
    pub(crate) fn soonest(&self, from: Time, bill: &Bill, tier: Tier) -> Time {
        self.search(from, bill, tier, |account| !self.book(account.limit).limit.is_until_settled()).at
    }

    /// The limit without keys that pays for its part last, if that is after `latest`, whatever the others do.
    pub(crate) fn shared_beyond(&self, now: Time, bill: &Bill, tier: Tier, latest: Time) -> Option<LimitId> {
        let pays = |limit| {
            let account = Account::of(bill, limit);
            self.look(now, account, |bucket, limit| bucket.earliest(limit, now, limit.draw(account.amount, tier)))
        };
        let last = bill.iter().map(|(limit, _)| (pays(limit), limit)).max();
        last.filter(|(at, _)| *at > latest).map(|(_, limit)| limit)
    }

    /// The earliest start that all buckets can pay which count: each moves it to its own next possibility until none does.
    fn search(&self, from: Time, bill: &Bill, tier: Tier, counts: impl Fn(&Account) -> bool) -> Offer {
        let mut offer = Offer { at: from, limited_by: None };
        let accounts = accounts(bill).filter(|account| counts(account));
        let (mut agreeing, all) = (0, accounts.clone().count());
        for account in accounts.cycle() {
            let at = self.look(from, account, |bucket, limit| {
                bucket.earliest(limit, offer.at, limit.draw(account.amount, tier))
            });
            if at > offer.at {
                offer = Offer { at, limited_by: Some(account.limit) };
                agreeing = 0;
            }
            agreeing += 1;
            if agreeing == all {
                break;
            }
        }
        offer
    }

    /// Limits whose quota is gone by the upstream's word.
    pub(crate) fn spent(&self, now: Time) -> LimitSet {
        let spent = self.adaptive_limits.iter().enumerate().filter(|(_, book)| book.spent_until(now).is_some());
        spent.fold(LimitSet::default(), |spent, (index, _)| spent.with(LimitId(index as u8)))
    }

    /// When the last quota can pay for the bill of those that are gone, and which that is. What is
    /// kept for the starts of `held` counts as left.
    pub(crate) fn spent_quota(
        &self,
        now: Time,
        bill: &Bill,
        held: impl Iterator<Item = StartKey> + Clone,
    ) -> Option<(Time, LimitId)> {
        let reset = |account: Account| Some((self.reset_of_spent(now, account, held.clone())?, account.limit));
        accounts(bill).filter_map(reset).max()
    }

    /// When a quota can pay that is gone by the upstream's word, or of which too little is left. What is promised after its next reset
    /// takes nothing of what is there until then.
    fn reset_of_spent(&self, now: Time, account: Account, held: impl Iterator<Item = StartKey>) -> Option<Time> {
        let book = self.book(account.limit);
        let told = book.spent_until(now);
        if told.is_some() || !book.limit.is_quota() {
            return told;
        }
        self.look(now, account, |bucket, limit| {
            let draw = limit.draw(account.amount, 0);
            let short = bucket.level_without(limit, now, held) < limit.demand(draw.cost, 0);
            short.then(|| bucket.earliest(limit, now, draw))
        })
    }

    /// The call of `key` is still in flight. Whether nobody else has been promised its place meanwhile.
    pub(crate) fn renew(&mut self, now: Time, key: StartKey, bill: &Bill) -> bool {
        accounts(bill).fold(true, |fits, account| {
            let renew =
                |bucket: &mut Bucket, limit: &Limit| bucket.renew(limit, now, key, limit.draw(account.amount, 0));
            self.touch(now, account, renew) && fits
        })
    }

    /// Of each limit that the call of `key` holds a place of, when its lease ends.
    pub(crate) fn leases(&self, now: Time, key: StartKey, bill: &Bill) -> impl Iterator<Item = (LimitId, Time)> {
        let holding = |account: &Account| self.book(account.limit).limit.is_until_settled();
        accounts(bill).filter(holding).filter_map(move |account| {
            let end = self.look(now, account, |bucket, _| bucket.lease(key)).filter(|end| *end > now)?;
            Some((account.limit, end))
        })
    }

    /// When the last lease of the call of `key` ends, or else its start.
    pub(crate) fn end(&self, now: Time, key: StartKey, bill: &Bill) -> Time {
        self.leases(now, key, bill).map(|(_, end)| end).fold(key.at, Time::max)
    }

    pub(crate) fn commit(&mut self, now: Time, key: StartKey, bill: &Bill, tier: Tier) {
        for account in accounts(bill) {
            self.touch(now, account, |bucket, limit| bucket.commit(limit, now, key, limit.draw(account.amount, tier)));
        }
    }

    /// Takes a promised start back from every bucket of its bill.
    pub(crate) fn withdraw(&mut self, now: Time, key: StartKey, bill: &Bill) {
        for account in accounts(bill) {
            let known = self.touch(now, account, |bucket, limit| bucket.withdraw(limit, key));
            assert!(known, "a promise is in every bucket of its bill");
        }
    }

    /// Corrects what the call of `key` took, from `charged` to `actual`, if it was made at all.
    pub(crate) fn correct(&mut self, now: Time, key: StartKey, charged: &Bill, actual: &Bill, made: bool) {
        for limit in charged.applicable().limits() {
            let (account, actual) = (Account::of(charged, limit), actual.get(limit));
            let ends = account.amount > Amount::ZERO && self.book(limit).limit.is_until_settled();
            if ends || account.amount != actual {
                self.touch(now, account, |bucket, limit| {
                    let [charged, actual] = [account.amount, actual].map(|amount| limit.rate().credit(amount));
                    bucket.correct(limit, now, key, (charged, actual), made);
                });
            }
        }
    }

    /// When everything promised, the backlog of each bucket and the bill have been paid; `at_gate` is the backlog of a key.
    pub(crate) fn paid_behind(
        &self,
        now: Time,
        backlog: &Backlog,
        at_gate: impl Fn(&KeyCharge) -> Credit,
        bill: &Bill,
        tier: Tier,
    ) -> Offer {
        let mut latest = Offer { at: now, limited_by: None };
        for account in accounts(bill) {
            let behind = account.key.map_or_else(|| backlog.of(account.limit), &at_gate);
            let at = self.look(now, account, |bucket, limit| {
                bucket.paid_behind(limit, now, behind, limit.draw(account.amount, tier))
            });
            if at > latest.at {
                latest = Offer { at, limited_by: Some(account.limit) };
            }
        }
        latest
    }

    /// Commits a start whose cost the levels have in them already, with those of its leases that are known; of one that is past,
    /// the places that its call still holds.
    pub(crate) fn promise_again(
        &mut self,
        now: Time,
        key: StartKey,
        bill: &Bill,
        tier: Tier,
        leases: &[(LimitId, Time)],
    ) {
        for account in accounts(bill) {
            let lease = leases.iter().find(|(leased, _)| *leased == account.limit).map(|(_, end)| *end);
            if key.at > now || lease.is_some_and(|end| end > now) {
                self.touch(now, account, |bucket, limit| {
                    bucket.promise_again(limit, now, key, limit.draw(account.amount, tier), lease);
                });
            }
        }
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
            let sum = &mut self.0[id.index()];
            *sum = sum.saturating_add(resource.limits()[id.index()].rate().credit(amount));
        }
    }

    /// Makes this what `bill` takes, and nothing else.
    pub(crate) fn reset_to(&mut self, resource: &Resource, bill: &Bill) {
        self.0.fill(Credit::ZERO);
        self.add(resource, bill);
    }

    pub(crate) fn add_all(&mut self, other: &Backlog) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine = mine.saturating_add(*theirs));
    }

    pub(crate) fn of(&self, limit: LimitId) -> Credit {
        self.0[limit.index()]
    }
}
