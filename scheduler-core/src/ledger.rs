//! All buckets of a resource, and starts that suit every one of them.

use crate::bill::{Bill, KeyCharge};
use crate::book::Book;
use crate::bucket::Bucket;
use crate::credit::Credit;
use crate::keys::Keys;
use crate::learner::{Learner, REVIEW};
use crate::limit::{Limit, Tier};
use crate::limit_set::LimitSet;
use crate::refusal::Refusal;
use crate::resource::{LimitId, Resource};
use crate::rules::Succession;
use crate::spec;
use crate::taken::Taken;
use crate::timeline::Key;
use crate::withheld::Withheld;
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
    books: Vec<Book>,
    pub(crate) keys: Keys,
    reviewed: Time,
    /// Whether a bucket without keys has changed since this was last asked.
    changed: bool,
}

/// A bucket that a bill charges.
#[derive(Clone, Copy)]
enum Account<'a> {
    Shared(LimitId, Amount),
    Keyed(&'a KeyCharge),
}

impl Account<'_> {
    fn limit(self) -> LimitId {
        match self {
            Account::Shared(limit, _) => limit,
            Account::Keyed(charge) => charge.limit,
        }
    }

    fn amount(self) -> Amount {
        match self {
            Account::Shared(_, amount) => amount,
            Account::Keyed(charge) => charge.amount,
        }
    }
}

/// All that a bill charges.
fn accounts(bill: &Bill) -> impl Iterator<Item = Account<'_>> + Clone {
    let shared = bill.iter().map(|(limit, amount)| Account::Shared(limit, amount));
    shared.chain(bill.keyed().map(Account::Keyed))
}

impl Ledger {
    /// Buckets of a store that never knew the resource.
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        let mut keys = Keys::new(resource);
        if resource.start() == spec::Start::Empty {
            resource.keyed_limits().for_each(|limit| keys.begin_empty(limit, now));
        }
        let books = resource.limits().iter().map(|limit| fresh(resource, limit, now));
        Ledger { books: books.collect(), keys, reviewed: now, changed: false }
    }

    /// What a bucket says, from `now` on.
    fn look<T>(&self, now: Time, account: Account, say: impl FnOnce(&Bucket, &Limit) -> T) -> T {
        let Book { bucket, limit, .. } = self.book(account.limit());
        match account {
            Account::Shared(..) => say(bucket, limit),
            Account::Keyed(charge) => say(&self.keys.bucket(now, charge), limit),
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
        match account {
            Account::Shared(limit, _) => {
                let Book { bucket, limit, .. } = self.book_mut(limit);
                change(bucket, limit)
            }
            Account::Keyed(charge) => self.keys.touch(now, charge, change),
        }
    }

    /// Puts the bucket of `limit` where its predecessor says that it was at `then`; false where that says nothing of such a bucket.
    pub(crate) fn resume(&mut self, limit: LimitId, then: Time, taken: &Taken) -> bool {
        let book = self.book_mut(limit);
        let bucket = Bucket::counted(&book.limit, then, taken);
        bucket.map(|bucket| book.bucket = bucket).is_some()
    }

    /// Puts the bucket of `limit` at `level`, without any promise but what is withheld for those of a predecessor.
    pub(crate) fn reset(&mut self, limit: LimitId, now: Time, level: Credit, withheld: Withheld) {
        self.book_mut(limit).reset(now, level, withheld);
    }

    /// Takes everything that is in stock of the limits that are meant.
    pub(crate) fn empty(&mut self, now: Time, is_meant: impl Fn(&Limit) -> bool) {
        for Book { bucket, limit, .. } in self.books.iter_mut().filter(|book| is_meant(&book.limit)) {
            let stock = bucket.level(limit, now).max(Credit::ZERO);
            bucket.debit(limit, now, stock);
        }
        self.keys.empty(now, is_meant);
        self.changed = true;
    }

    pub(crate) fn books(&self) -> impl Iterator<Item = &Book> {
        self.books.iter()
    }

    pub(crate) fn book(&self, limit: LimitId) -> &Book {
        &self.books[limit.index()]
    }

    pub(crate) fn book_mut(&mut self, limit: LimitId) -> &mut Book {
        self.changed = true;
        &mut self.books[limit.index()]
    }

    /// Notes a change that may let a waiting request start earlier or later.
    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }

    /// Whether anything has changed since this was last asked by which a waiting request may start earlier or later.
    pub(crate) fn take_change(&mut self) -> bool {
        let keys = self.keys.take_change();
        std::mem::take(&mut self.changed) || keys
    }

    /// Notes that a call which started at `at` was served. This changes something only of a frozen bucket, or of one in doubt.
    pub(crate) fn note_served(&mut self, now: Time, key: Key, at: Time, bill: &Bill) {
        for (limit, _) in bill.iter() {
            let book = &mut self.books[limit.index()];
            self.changed |= book.bucket.freeze().is_some() || book.is_doubted();
            book.bucket.thaw(key);
            book.note_served(at);
        }
        for charge in bill.keyed() {
            if self.keys.bucket(now, charge).freeze().is_some() {
                self.touch(now, Account::Keyed(charge), |bucket, _| bucket.thaw(key));
            }
        }
    }

    pub(crate) fn bucket(&self, limit: LimitId) -> &Bucket {
        &self.book(limit).bucket
    }

    /// A bucket, and the limit that it is kept by.
    pub(crate) fn kept(&self, limit: LimitId) -> (&Bucket, &Limit) {
        let Book { bucket, limit, .. } = self.book(limit);
        (bucket, limit)
    }

    /// When limits are to be [reviewed](Ledger::review), if any differs from what is configured.
    pub(crate) fn next_review(&self) -> Option<Time> {
        let differs = self.books.iter().filter_map(Book::learner).any(Learner::differs);
        differs.then_some(self.reviewed + REVIEW)
    }

    /// Goes on under other limits: those that go on keep their buckets.
    pub(crate) fn change(&mut self, now: Time, resource: &Resource, succession: &Succession) {
        let limits = resource.limits().iter().zip(succession.before());
        let book = |(limit, before): (&Limit, &Option<LimitId>)| match before {
            Some(before) => {
                let mut book = self.book(*before).clone();
                book.change(now, limit);
                book
            }
            None => fresh(resource, limit, now),
        };
        self.books = limits.map(book).collect();
        self.keys.change(now, resource, succession);
        let new = resource.keyed_limits().filter(|limit| succession.before()[limit.index()].is_none());
        new.filter(|_| resource.start() == spec::Start::Empty).for_each(|limit| self.keys.begin_empty(limit, now));
    }

    /// The wall clock showed something else at the origin of time.
    pub(crate) fn anchor(&mut self, now: Time, unix_at_origin: u64) {
        self.books.iter_mut().for_each(|book| book.anchor(now, unix_at_origin));
        self.keys.anchor(now, unix_at_origin);
    }

    /// Whether there is stock that is not proven yet.
    pub(crate) fn is_doubted(&self) -> bool {
        self.books.iter().any(Book::is_doubted)
    }

    /// The first limit whose stock has to be proven before this may start.
    pub(crate) fn unproven(&self, now: Time, bill: &Bill) -> Option<LimitId> {
        bill.iter().find(|(id, amount)| !self.book(*id).is_proven(now, *amount)).map(|(id, _)| id)
    }

    /// Notes that a call was promised a start.
    pub(crate) fn note_start(&mut self, at: Time, bill: &Bill) {
        bill.iter().for_each(|(id, _)| self.books[id.index()].note_start(at));
    }

    /// Keeps limits as what was learned of them says now.
    pub(crate) fn review(&mut self, now: Time) {
        self.reviewed = now;
        let changed = self.books.iter_mut().filter_map(|book| book.review(now).then_some(())).count();
        self.changed |= changed > 0;
    }

    pub(crate) fn advance(&mut self, now: Time) {
        self.books.iter_mut().for_each(|book| book.advance(now));
        self.keys.advance(now);
    }

    /// The earliest start from `from` on that all buckets of the bill can pay: each bucket moves it
    /// to its own next possibility until none does.
    pub(crate) fn earliest(&self, from: Time, bill: &Bill, tier: Tier) -> Offer {
        let mut offer = Offer { at: from, limited_by: None };
        let (mut agreeing, all) = (0, bill.len());
        for account in accounts(bill).cycle() {
            let at = self.look(from, account, |bucket, limit| {
                bucket.earliest(limit, offer.at, limit.draw(account.amount(), tier))
            });
            if at > offer.at {
                offer = Offer { at, limited_by: Some(account.limit()) };
                agreeing = 0;
            }
            agreeing += 1;
            if agreeing >= all {
                break;
            }
        }
        offer
    }

    /// The earliest start from `from` on that the bucket of a key can pay, beside a start that is kept for another.
    pub(crate) fn earliest_of_key(
        &self,
        from: Time,
        charge: &KeyCharge,
        tier: Tier,
        kept: Option<(Key, Amount, Tier)>,
    ) -> Time {
        let limit = &self.book(charge.limit).limit;
        let mut bucket = self.keys.bucket(from, charge);
        if let Some((key, amount, tier)) = kept {
            bucket.to_mut().commit(limit, from, key, limit.draw(amount, tier));
        }
        bucket.earliest(limit, from, limit.draw(charge.amount, tier))
    }

    /// Limits whose quota is gone by the upstream's word.
    pub(crate) fn spent(&self, now: Time) -> LimitSet {
        let spent = self.books.iter().enumerate().filter(|(_, book)| book.spent_until(now).is_some());
        spent.fold(LimitSet::default(), |spent, (index, _)| spent.with(LimitId(index as u8)))
    }

    /// When the last quota is reset of those of which too little is left for the bill.
    pub(crate) fn used_up(&self, now: Time, bill: &Bill) -> Option<(Time, LimitId)> {
        accounts(bill).filter_map(|account| Some((self.reset_of_spent(now, account)?, account.limit()))).max()
    }

    /// When a quota of which too little is left can pay. What is promised after its next reset takes nothing of what is there until then.
    fn reset_of_spent(&self, now: Time, account: Account) -> Option<Time> {
        if !self.book(account.limit()).limit.is_quota() {
            return None;
        }
        self.look(now, account, |bucket, limit| {
            let draw = limit.draw(account.amount(), 0);
            let short = bucket.level_until(limit, now, now) < limit.demand(draw.cost, 0);
            short.then(|| bucket.earliest(limit, now, draw))
        })
    }

    /// The earliest start from `from` on, should all calls in flight be over then.
    pub(crate) fn soonest(&self, from: Time, bill: &Bill, tier: Tier) -> Time {
        let lasting = |account: &Account| !self.book(account.limit()).limit.is_until_settled();
        let mut at = from;
        loop {
            let moved = accounts(bill).filter(lasting).fold(at, |at, account| {
                self.look(from, account, |bucket, limit| bucket.earliest(limit, at, limit.draw(account.amount(), tier)))
            });
            if moved == at {
                return at;
            }
            at = moved;
        }
    }

    /// The call of `key` is still in flight. Whether nobody else has been promised its place meanwhile.
    pub(crate) fn renew(&mut self, now: Time, key: Key, bill: &Bill) -> bool {
        accounts(bill).fold(true, |fits, account| {
            let draw = |limit: &Limit| limit.draw(account.amount(), 0);
            self.touch(now, account, |bucket, limit| bucket.renew(limit, now, key, draw(limit))) && fits
        })
    }

    /// Of each limit that the call of `key` holds a place of, when its lease ends.
    pub(crate) fn leases(&self, now: Time, key: Key, bill: &Bill) -> impl Iterator<Item = (LimitId, Time)> {
        let holding = |account: &Account| self.book(account.limit()).limit.is_until_settled();
        accounts(bill).filter(holding).filter_map(move |account| {
            let end = self.look(now, account, |bucket, _| bucket.lease(key)).filter(|end| *end > now)?;
            Some((account.limit(), end))
        })
    }

    /// When the last lease of the call of `key` ends, or else its start.
    pub(crate) fn end(&self, now: Time, key: Key, bill: &Bill) -> Time {
        self.leases(now, key, bill).map(|(_, end)| end).fold(key.at, Time::max)
    }

    /// The limit without keys that can pay for its part only after `latest`.
    pub(crate) fn shared_beyond(&self, now: Time, bill: &Bill, tier: Tier, latest: Time) -> Option<LimitId> {
        let beyond = |(id, amount): &(LimitId, Amount)| {
            let Book { bucket, limit, .. } = self.book(*id);
            bucket.earliest(limit, now, limit.draw(*amount, tier)) > latest
        };
        bill.iter().find(beyond).map(|(id, _)| id)
    }

    pub(crate) fn commit(&mut self, now: Time, key: Key, bill: &Bill, tier: Tier) {
        for account in accounts(bill) {
            self.touch(now, account, |bucket, limit| {
                bucket.commit(limit, now, key, limit.draw(account.amount(), tier));
            });
        }
    }

    /// Takes a promised start back from every bucket of its bill.
    pub(crate) fn withdraw(&mut self, key: Key, bill: &Bill) {
        for account in accounts(bill) {
            let known = self.touch(key.at, account, |bucket, limit| bucket.withdraw(limit, key));
            assert!(known, "a promise is in every bucket of its bill");
        }
    }

    /// Corrects what the call of `key` took, from `charged` to `actual`, if it was made at all.
    pub(crate) fn correct(&mut self, now: Time, key: Key, charged: &Bill, actual: &Bill, made: bool) {
        for (index, Book { bucket, limit, .. }) in self.books.iter_mut().enumerate() {
            let id = LimitId(index as u8);
            if charged.key_of(id).is_none() {
                let amounts = (charged.get(id), actual.get(id));
                self.changed |= amounts.0 != amounts.1 || limit.is_until_settled() && amounts.0 > Amount::ZERO;
                bucket.correct(limit, now, key, credits(limit, amounts), made);
            }
        }
        for charge in charged.all_keyed() {
            let amounts = (charge.amount, actual.get(charge.limit));
            let correct = |bucket: &mut Bucket, limit: &Limit| {
                bucket.correct(limit, now, key, credits(limit, amounts), made);
            };
            if amounts.0 != amounts.1 || self.books[charge.limit.index()].limit.is_until_settled() {
                self.keys.touch(now, charge, correct);
            } else {
                self.keys.touch_unnoticed(now, charge, correct);
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
            let (id, amount) = (account.limit(), account.amount());
            let behind = match account {
                Account::Shared(..) => backlog.of(id),
                Account::Keyed(charge) => at_gate(charge),
            };
            let paid =
                |bucket: &Bucket, limit: &Limit| bucket.paid_behind(limit, now, behind, limit.draw(amount, tier));
            let at = self.look(now, account, paid);
            if at > latest.at {
                latest = Offer { at, limited_by: Some(id) };
            }
        }
        latest
    }

    /// Commits a start whose cost the levels have in them already, with those of its leases that are known; of one that is past,
    /// the places that its call still holds.
    pub(crate) fn promise_again(&mut self, now: Time, key: Key, bill: &Bill, tier: Tier, leases: &[(LimitId, Time)]) {
        let lease = |limit| leases.iter().find(|(leased, _)| *leased == limit).map(|(_, end)| *end);
        let lasting = |limit| key.at > now || lease(limit).is_some_and(|end| end > now);
        for account in accounts(bill).filter(|account| lasting(account.limit())) {
            self.touch(now, account, |bucket, limit| {
                let draw = limit.draw(account.amount(), tier);
                bucket.promise_again(limit, now, key, draw, lease(account.limit()));
            });
        }
    }

    pub(crate) fn level(&self, limit: LimitId, now: Time) -> Credit {
        let Book { bucket, limit, .. } = self.book(limit);
        bucket.level(limit, now)
    }

    /// What could be spent of `limit` at `now` if every promise until `time` were paid now.
    pub(crate) fn level_until(&self, limit: LimitId, now: Time, time: Time) -> Credit {
        let Book { bucket, limit, .. } = self.book(limit);
        bucket.level_until(limit, now, time)
    }
}

fn credits(limit: &Limit, (charged, actual): (Amount, Amount)) -> (Credit, Credit) {
    (limit.rate().credit(charged), limit.rate().credit(actual))
}

/// The book of a limit that nobody has heard of.
fn fresh(resource: &Resource, limit: &Limit, now: Time) -> Book {
    let mut book = Book::new(limit, now, fresh_level(resource, limit));
    if resource.start() == spec::Start::Unproven {
        book.doubt_stock(now);
    }
    book
}

fn fresh_level(resource: &Resource, limit: &Limit) -> Credit {
    match resource.start() {
        spec::Start::Full | spec::Start::Unproven => limit.full(),
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
