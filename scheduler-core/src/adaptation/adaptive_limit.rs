//! A bucket, and the limit as its upstream turns out to keep it.

use super::learned::LearnedSnapshot;
use super::rate_estimator::RateEstimator;
use super::slow_start::{BEYOND, GROUND, SlowStart};
use crate::arithmetic::Credit;
use crate::limits::{Bucket, PendingDebits, Usage};
use crate::policy::{Limit, StartPolicy};
use rampmeter_protocol::amount::Amount;
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
pub(crate) struct AdaptiveLimit {
    pub(crate) bucket: Bucket,
    /// The limit in use.
    pub(crate) limit: Limit,
    pub(crate) estimator: RateEstimator,
    /// What is known of stock that nobody has seen, as long as there may be some.
    pub(crate) slow_start: Option<SlowStart>,
    pause: Span,
    raised: Time,
    /// Until when its quota is gone, by the upstream's word.
    pub(crate) spent: Time,
}

impl AdaptiveLimit {
    /// The book of a limit that nobody has heard of.
    pub(crate) fn new(limit: &Limit, start: StartPolicy, now: Time) -> Self {
        let level = if start == StartPolicy::Empty { Credit::ZERO } else { limit.full() };
        let is_doubted = start == StartPolicy::Unproven && limit.floor().is_some() && !limit.is_keyed();
        AdaptiveLimit {
            bucket: Bucket::new(limit, now, level).tracked(),
            limit: limit.clone(),
            estimator: RateEstimator::new(now, limit),
            slow_start: SlowStart::wanted(now, limit.spec().period).filter(|_| is_doubted),
            pause: FIRST_PAUSE,
            raised: now,
            spent: Time::ORIGIN,
        }
    }

    /// The same under a limit that may be of another size.
    pub(crate) fn under(&self, now: Time, limit: &Limit) -> Self {
        if self.estimator.nominal == *limit {
            return self.clone();
        }
        let bucket = self.bucket.recast(now, &self.limit, limit).tracked();
        AdaptiveLimit { bucket, spent: self.spent, ..AdaptiveLimit::new(limit, StartPolicy::Empty, now) }
    }

    /// Goes on under a wall clock that showed something else at the origin of time.
    pub(crate) fn anchor(&mut self, now: Time, unix_at_origin: u64) {
        let limit = self.limit.clone().at_unix(unix_at_origin);
        self.bucket.anchor(now, &self.limit, &limit);
        self.limit = limit;
        self.estimator.nominal = self.estimator.nominal.clone().at_unix(unix_at_origin);
    }

    /// Puts the bucket at a level that somebody knows, without any promise but what is withheld for those of a predecessor.
    pub(crate) fn reset(&mut self, now: Time, level: Credit, pending_debits: PendingDebits) {
        self.bucket = Bucket::with_pending(&self.limit, now, level, pending_debits).tracked();
        self.slow_start = None;
    }

    /// Puts the bucket where its predecessor says that it was at `then`; false where that says nothing of such a bucket.
    pub(crate) fn resume(&mut self, then: Time, taken: &Usage) -> bool {
        let bucket = Bucket::from_usage(&self.limit, then, taken);
        bucket.map(|bucket| self.bucket = bucket).is_some()
    }

    /// Goes on from what a predecessor had learned at `then`, if it was of the same policy. The bucket must be [put](AdaptiveLimit::reset) at its
    /// level behind this.
    pub(crate) fn resume_learning(&mut self, then: Time, mark: &LearnedSnapshot) {
        if let Some(estimator) = self.estimator.resumed(then, mark) {
            self.limit = estimator.adapted(then);
            self.estimator = estimator;
        }
    }

    /// What could be spent at `now` if every promise were paid now.
    pub(crate) fn level(&self, now: Time) -> Credit {
        self.bucket.level(&self.limit, now)
    }

    /// Whether a call of this cost goes no further beyond what is known to have been served than it may.
    pub(crate) fn is_proven(&self, now: Time, cost: Amount) -> bool {
        let Some(slow_start) = &self.slow_start else { return true };
        let proven = slow_start.served(now).and_then(|at| self.bucket.level_after(&self.limit, at));
        let (cost, full) = (self.credit(cost), self.limit.full());
        let level = self.level(now) - cost;
        let beyond = if level < full.divided_by(GROUND) { cost } else { cost.times(BEYOND) };
        level >= proven.unwrap_or(full) - beyond.max(self.margin())
    }

    /// Notes that a call which started at `at` was served: a bucket that was drawn on to the ground holds what it should.
    pub(crate) fn note_served(&mut self, at: Time) {
        let Some(slow_start) = &mut self.slow_start else { return };
        slow_start.note_served(at);
        let ground = self.margin() + self.credit(Amount::ONE);
        if self.bucket.level_after(&self.limit, at).is_some_and(|level| level < ground) {
            self.slow_start = None;
        }
    }

    /// Until when its quota is gone, if it is.
    pub(crate) fn spent_until(&self, now: Time) -> Option<Time> {
        (self.spent > now).then_some(self.spent)
    }

    /// Forgets what nobody will tell any more.
    pub(crate) fn advance(&mut self, now: Time) {
        self.bucket.advance(&self.limit, now);
        self.slow_start.take_if(|slow_start| slow_start.is_over(now));
    }

    /// Keeps the limit as what was learned says now. Whether that changes anything.
    pub(crate) fn review(&mut self, now: Time) -> bool {
        self.estimator.review(now);
        let adapted = self.estimator.adapted(now);
        let changes = adapted != self.limit;
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
        let level = self.upstream_after(at).unwrap_or(-self.credit(cost));
        self.estimator.nominal.rate().nanos_of(level)
    }

    /// Learns that the upstream rejected a call of this cost which was made at `at`: it would have been served after that time.
    ///
    /// A call that was rejected has taken nothing, so that the charge returns.
    pub(crate) fn be_rejected(&mut self, now: Time, at: Time, cost: Amount, after: Option<Span>) {
        let after_call = self.upstream_after(at);
        self.bucket.shift_from(&self.limit, now, at, self.credit(cost));
        self.slow_start = None;
        let missing = |book: &AdaptiveLimit| book.limit.rate().refill_within(after.unwrap_or(SILENT_REJECTION));
        let known = missing(self);
        // Where the upstream does not say, a call that had to be rejected tells nothing new.
        let told = after_call.filter(|level| after.is_some() || *level >= Credit::ZERO);
        if let Some(short) = told.map(|level| level + known).filter(|short| *short > Credit::ZERO) {
            self.lower(now, at, short);
            // What is missing comes in within the same time, however slow the refill turns out to be.
            self.bucket.shift(&self.limit, now, known - missing(self));
        }
    }

    /// Learns what the upstream's bucket held at some time between `asked` and `heard`; whole tokens only, perhaps. What is held back
    /// is there to be short of, but for half the margin.
    pub(crate) fn be_told(&mut self, now: Time, asked: Time, heard: Time, remaining: Amount) {
        let past = |at| self.upstream_after(at);
        let (Some(first), Some(last)) = (past(asked), past(heard)) else { return };
        let (least, most) = (first.min(last), first.max(last) + self.credit(Amount::ONE));
        let told = self.credit(remaining);
        if told < least - self.held_back() + self.margin().divided_by(2) {
            self.lower(now, asked, least - told);
        } else if told > most {
            self.raise(now, told - most);
        }
    }

    /// The upstream had `short` less than it should when it was asked at `at`. What was asked before the last lesson was learned is
    /// part of it.
    fn lower(&mut self, now: Time, at: Time, short: Credit) {
        self.bucket.shift(&self.limit, now, -short);
        if self.estimator.known.is_some_and(|lesson| at < lesson) {
            return;
        }
        let full = self.bucket.last_full(&self.limit);
        let stock = self.estimator.fall_short(now, short, full);
        self.bucket.shift(&self.limit, now, -stock);
        self.review(now);
    }

    /// The upstream has more than it should: that may be trusted slowly.
    fn raise(&mut self, now: Time, surplus: Credit) {
        let refill = self.estimator.nominal.rate().refill_within(now.since(self.raised));
        self.raised = now;
        self.bucket.shift(&self.limit, now, surplus.min(refill.divided_by(RAISE_PART)));
    }

    /// What the upstream holds right behind what started until `at`, as far as is known here.
    fn upstream_after(&self, at: Time) -> Option<Credit> {
        Some(self.bucket.level_after(&self.limit, at)? + self.held_back())
    }

    /// By how much the levels here lie below the upstream's.
    fn held_back(&self) -> Credit {
        self.margin() + self.estimator.stock
    }

    fn margin(&self) -> Credit {
        self.credit(self.limit.margin())
    }

    /// The same at any rate: the units of credit are those of the capacity.
    fn credit(&self, amount: Amount) -> Credit {
        self.limit.rate().credit(amount)
    }
}
