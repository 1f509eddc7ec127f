//! A bucket, and the limit as its upstream turns out to keep it.

use crate::bucket::Bucket;
use crate::credit::Credit;
use crate::learned::LearnedMark;
use crate::learner::Learner;
use crate::limit::Limit;
use crate::proof::{BEYOND, GROUND, Proof};
use crate::withheld::Withheld;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::status::Learned;
use rampmeter_protocol::time::{Span, Time};

/// How long a limit is silent after a rejection that does not say: at first, and at most. It doubles while they go on.
const FIRST_PAUSE: Span = Span::from_secs(1);
const LONGEST_PAUSE: Span = Span::from_secs(60);
/// What a rejection that does not say is taken to mean: so much of the refill is missing.
const SILENT_REJECTION: Span = Span::from_millis(500);
/// How much of its nominal rate an account that seems richer than its bucket gets on top.
const RAISE_PART: u64 = 20;

/// One bucket. Levels are those of the limit in use, which lies below the nominal one by what was learned.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    pub(crate) bucket: Bucket,
    /// The limit in use.
    pub(crate) limit: Limit,
    nominal: Limit,
    learner: Option<Learner>,
    pause: Span,
    raised: Time,
    /// Until when its quota is gone, by the upstream's word.
    spent: Time,
    proof: Option<Proof>,
    /// When something was last learned of the level.
    lesson: Time,
}

impl Book {
    pub(crate) fn new(limit: &Limit, now: Time, level: Credit) -> Self {
        Book {
            bucket: Bucket::new(limit, now, level).tracked(),
            limit: limit.clone(),
            nominal: limit.clone(),
            learner: limit.floor().map(|floor| Learner::new(now, floor)),
            pause: FIRST_PAUSE,
            raised: now,
            spent: Time::ORIGIN,
            proof: None,
            lesson: Time::ORIGIN,
        }
    }

    /// Goes on under a limit of another size, if it is one.
    pub(crate) fn change(&mut self, now: Time, limit: &Limit) {
        if self.nominal != *limit {
            let bucket = self.bucket.recast(now, &self.limit, limit).tracked();
            *self = Book { bucket, spent: self.spent, ..Book::new(limit, now, Credit::ZERO) };
        }
    }

    /// Goes on under a wall clock that showed something else at the origin of time.
    pub(crate) fn anchor(&mut self, now: Time, unix_at_origin: u64) {
        let limit = self.limit.clone().at_unix(unix_at_origin);
        self.bucket.anchor(now, &self.limit, &limit);
        (self.limit, self.nominal) = (limit, self.nominal.clone().at_unix(unix_at_origin));
    }

    /// Stock that is full because nobody knows better is drawn on with care.
    pub(crate) fn doubt_stock(&mut self, now: Time) {
        self.proof = self.learner.as_ref().and_then(|_| Proof::wanted(now, self.nominal.spec().period));
    }

    /// Puts the bucket at a level that somebody knows.
    pub(crate) fn reset(&mut self, now: Time, level: Credit, withheld: Withheld) {
        self.bucket = Bucket::withholding(&self.limit, now, level, withheld).tracked();
        self.proof = None;
    }

    /// Whether a call of this cost goes no further beyond what is known to have been served than it may.
    pub(crate) fn is_proven(&self, now: Time, cost: Amount) -> bool {
        let Some(proof) = &self.proof else { return true };
        let proven = proof.served(now).and_then(|at| self.bucket.level_after(&self.limit, at));
        let (cost, full) = (self.nominal.rate().credit(cost), self.limit.full());
        let level = self.bucket.level(&self.limit, now) - cost;
        let beyond = if level < full.part(GROUND) { cost } else { cost.times(BEYOND) };
        level >= proven.unwrap_or(full) - beyond.max(self.margin())
    }

    /// Whether there is stock that is not proven yet.
    pub(crate) fn is_doubted(&self) -> bool {
        self.proof.is_some()
    }

    /// Notes that a call is to start.
    pub(crate) fn note_start(&mut self, at: Time) {
        if let Some(proof) = &mut self.proof {
            proof.note_start(at);
        }
    }

    /// Notes that a call which started at `at` was served: a bucket that was drawn on to the ground holds what it should.
    pub(crate) fn note_served(&mut self, at: Time) {
        let Some(proof) = &mut self.proof else { return };
        proof.note_served(at);
        let ground = self.margin() + self.nominal.rate().credit(Amount::ONE);
        if self.bucket.level_after(&self.limit, at).is_some_and(|level| level < ground) {
            self.proof = None;
        }
    }

    /// Its quota is gone until then.
    pub(crate) fn spend_until(&mut self, until: Time) {
        self.spent = until;
    }

    /// Until when its quota is gone, if it is.
    pub(crate) fn spent_until(&self, now: Time) -> Option<Time> {
        (self.spent > now).then_some(self.spent)
    }

    /// What is learned of the limit, if that is wanted.
    pub(crate) fn learner(&self) -> Option<&Learner> {
        self.learner.as_ref()
    }

    /// Forgets what nobody will tell any more.
    pub(crate) fn advance(&mut self, now: Time) {
        self.bucket.advance(&self.limit, now);
        self.proof.take_if(|proof| proof.is_over(now));
    }

    /// How the limit in use differs from the nominal one, for people.
    pub(crate) fn learned(&self, now: Time) -> Option<Learned> {
        let learner = self.learner.as_ref().filter(|learner| learner.differs())?;
        let held_back = self.nominal.rate().units(learner.short());
        Some(Learned { rate: 1.0 - learner.loss(now) as f64 / 1e6, held_back })
    }

    /// What a successor is told of what was learned, if that is anything.
    pub(crate) fn learned_mark(&self, now: Time) -> Option<LearnedMark> {
        self.learner.as_ref()?.mark(now, &self.nominal, &self.limit)
    }

    /// Goes on from what a predecessor had learned at `then`, if it was of the same policy. The bucket must be [put](Book::reset) at its
    /// level behind this.
    pub(crate) fn resume_learning(&mut self, then: Time, mark: &LearnedMark) {
        if let Some(learner) = Learner::resumed(then, &self.nominal, mark) {
            self.limit = learner.adapted(&self.nominal, then);
            self.learner = Some(learner);
        }
    }

    /// Keeps the limit as what was learned says now. Whether that changes anything.
    pub(crate) fn review(&mut self, now: Time) -> bool {
        let Some(learner) = &mut self.learner else { return false };
        learner.review(now, &self.nominal, &self.limit);
        let adapted = learner.adapted(&self.nominal, now);
        let changes = adapted.rate() != self.limit.rate() || adapted.full() != self.limit.full();
        if changes {
            self.bucket.adopt(now, &self.limit, &adapted);
            self.limit = adapted;
        }
        changes
    }

    /// How long a limit is silent whose upstream does not say: longer each time, as long as every probe is rejected. Those that were
    /// on their way when it began change nothing.
    pub(crate) fn next_pause(&mut self, now: Time) -> Span {
        let frozen = self.bucket.freeze().map(|freeze| freeze.until());
        if let Some(until) = frozen.filter(|until| *until > now) {
            return until.since(now);
        }
        self.pause = if frozen.is_some() { (self.pause + self.pause).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
        self.pause
    }

    /// For how long the upstream could have gone on when it was asked at `at`, as far as is known here: negative where the
    /// rejection of a call of this cost had to be expected. In nanoseconds.
    pub(crate) fn slack(&self, at: Time, cost: Amount) -> i128 {
        let rate = self.nominal.rate();
        let level = self.upstream_before(at, cost).unwrap_or(Credit::ZERO) - rate.credit(cost);
        rate.nanos_of(level)
    }

    /// Learns that the upstream rejected a call of this cost which was made at `at`: it would have been served after that time.
    ///
    /// A call that was rejected has taken nothing, so that the charge returns.
    pub(crate) fn be_rejected(&mut self, now: Time, at: Time, cost: Amount, after: Option<Span>) {
        let rate = *self.nominal.rate();
        let before = self.upstream_before(at, cost);
        self.bucket.shift_from(&self.limit, now, at, rate.credit(cost));
        self.proof = None;
        if let Some(before) = before {
            self.learn_rejection(now, at, cost, before, after);
        }
    }

    fn learn_rejection(&mut self, now: Time, at: Time, cost: Amount, before: Credit, after: Option<Span>) {
        let cost = self.nominal.rate().credit(cost);
        let missing = |book: &Book| book.limit.rate().refill_within(after.unwrap_or(SILENT_REJECTION));
        let known = missing(self);
        let short = before - (cost - known);
        if short <= Credit::ZERO || after.is_none() && before < cost {
            return;
        }
        self.lower(now, at, short);
        // What is missing comes in within the same time, however slow the refill turns out to be.
        self.bucket.shift(&self.limit, now, known - missing(self));
    }

    /// Learns what the upstream's bucket held right behind a call that was made at `at`; whole tokens only, perhaps.
    pub(crate) fn be_told(&mut self, now: Time, at: Time, remaining: Amount) {
        let Some(level) = self.bucket.level_after(&self.limit, at) else { return };
        let rate = *self.nominal.rate();
        let (expected, told) = (level + self.held_back(), rate.credit(remaining));
        if told < level + self.margin().part(2) {
            self.lower(now, at, expected - told);
        } else if told > expected + rate.credit(Amount::ONE) {
            self.raise(now, told - expected - rate.credit(Amount::ONE));
        }
    }

    /// Learns what the upstream's bucket held at some time between `asked` and `heard`.
    pub(crate) fn be_polled(&mut self, now: Time, asked: Time, heard: Time, level: Amount) {
        let past = |at| self.bucket.level_after(&self.limit, at);
        let (Some(first), Some(last)) = (past(asked), past(heard)) else { return };
        let (least, most) = (first.min(last) + self.held_back(), first.max(last) + self.held_back());
        let told = self.nominal.rate().credit(level);
        if told < least - self.margin().part(2) {
            self.lower(now, asked, least - told);
        } else if told > most + self.nominal.rate().credit(Amount::ONE) {
            self.raise(now, told - most);
        }
    }

    /// The upstream had `short` less than it should when it was asked at `at`. What was asked before the last lesson was learned is
    /// part of it.
    fn lower(&mut self, now: Time, at: Time, short: Credit) {
        self.bucket.shift(&self.limit, now, -short);
        if at < self.lesson {
            return;
        }
        self.lesson = now;
        self.review(now);
        let full = self.bucket.last_full(&self.limit);
        let Some(learner) = &mut self.learner else { return };
        let stock = learner.fall_short(now, &self.nominal, short, full);
        if stock > Credit::ZERO {
            self.bucket.shift(&self.limit, now, -stock);
        }
        self.review(now);
    }

    /// The upstream has more than it should: that may be trusted slowly.
    fn raise(&mut self, now: Time, surplus: Credit) {
        let most = self.nominal.rate().refill_within(now.since(self.raised)).part(RAISE_PART);
        self.raised = now;
        self.bucket.shift(&self.limit, now, surplus.min(most));
    }

    /// What the upstream held before a call of this cost at `at`, as far as is known here.
    fn upstream_before(&self, at: Time, cost: Amount) -> Option<Credit> {
        let after = self.bucket.level_after(&self.limit, at)?;
        Some(after + self.nominal.rate().credit(cost) + self.held_back())
    }

    /// By how much the levels here lie below the upstream's.
    fn held_back(&self) -> Credit {
        self.margin() + self.learner.as_ref().map_or(Credit::ZERO, Learner::stock)
    }

    fn margin(&self) -> Credit {
        self.nominal.rate().credit(self.nominal.margin())
    }
}
