//! A bucket together with the limit that its upstream turns out to enforce.

use super::ceiling::Ceiling;
use super::rate_estimator::RateEstimator;
use super::slow_start::{MAX_CALLS_BEYOND, NEARLY_EMPTY_PART, SlowStart};
use crate::limits::{Bucket, RAISE_PART};
use rampmeter_policy::Limit;
use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::observation::Reading;
use rampmeter_policy::spec::{Learn, LimitSpec, StartPolicy};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;
use std::ops::RangeInclusive;

/// The refill that is assumed to be missing after a rejection without `Retry-After`.
const SILENT_REJECTION: Span = Span::from_millis(500);
/// A response that states less than one part in this many of a capacity is about another limit.
const MIN_PART: u64 = 10;
/// How long responses must have stated one capacity, and no other, to be believed whatever it is.
const CERTAIN: Span = Span::from_secs(60);
/// How long all responses must have stated a capacity that does not count before people are told.
const TOLD_AFTER: Span = Span::from_secs(10);
/// A call younger than this may not have arrived yet, or its permit may come back as too late.
const ON_THE_WAY: Span = Span::from_secs(1);
/// The weight of the latest call in the mean time of calls is one part in this many.
const LATEST_PART: u64 = 8;

/// A bucket, and the limit that it enforces: the nominal limit with what was learned. Levels lie
/// below those of the nominal limit by the learned reserve.
///
/// Invariants: `limit` is what the estimator made of the nominal limit at the last review, and
/// `bucket` is a bucket of `limit`.
#[derive(Clone, Debug)]
pub(crate) struct AdaptiveLimit {
    bucket: Bucket,
    limit: Limit,
    estimator: RateEstimator,
    slow_start: Option<SlowStart>,
    /// The mean time of recent calls in flight, the latest of which count most; not handed over.
    call_time: Option<Span>,
    /// The capacity that the upstream states, if the limit follows it and it is below the written one.
    stated: Option<Stated>,
    /// What the upstream seems to allow, if that is far less than is written.
    ceiling: Option<Ceiling>,
    /// The capacity that responses state, whatever it is, and since when they state no other.
    announced: Option<Stated>,
    is_told: bool,
    /// When a response to a served call last stated no capacity.
    untold: Time,
    /// The start of the latest call that was served.
    pub(crate) served: Time,
    last_raise: Time,
    /// When a spent quota resets, according to the upstream.
    quota_spent_until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stated {
    pub(crate) capacity: Amount,
    pub(crate) since: Time,
}

impl Stated {
    /// Returns the capacity, above the floor of learning unless it `is_certain`, if that is below
    /// the written one. A higher one may be wrong, and could get every call rejected.
    fn below_written(spec: &LimitSpec, capacity: Amount, since: Time, is_certain: bool) -> Option<Self> {
        let Learn::Above(share) = spec.learn else { return None };
        let floor = if is_certain { 0 } else { (spec.capacity.micros() as f64 * share).ceil() as u64 };
        let capacity = Amount::from_micros(capacity.micros().max(floor.max(1))).ok()?;
        (capacity < spec.capacity).then_some(Stated { capacity, since })
    }
}

impl AdaptiveLimit {
    /// Creates the state of a bucket without recorded history.
    pub(crate) fn new(limit: &Limit, start: StartPolicy, now: Time) -> Self {
        let level = if start == StartPolicy::Empty { Credit::ZERO } else { limit.full() };
        let is_doubted = start == StartPolicy::Unproven && limit.floor().is_some() && !limit.is_keyed();
        let mut adaptive = AdaptiveLimit {
            bucket: Bucket::new(limit, now, level).remembering_levels(),
            limit: limit.clone(),
            estimator: RateEstimator::new(now, limit),
            slow_start: SlowStart::for_period(now, limit.spec().period).filter(|_| is_doubted),
            call_time: None,
            stated: None,
            ceiling: None,
            announced: None,
            is_told: false,
            untold: Time::ORIGIN,
            served: Time::ORIGIN,
            last_raise: now,
            quota_spent_until: Time::ORIGIN,
        };
        if let Learn::Steered(first) = limit.spec().learn {
            adaptive.set_capacity_in_force(now, first);
        }
        adaptive
    }

    pub(crate) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    pub(crate) fn update<T>(&mut self, change: impl FnOnce(&mut Bucket, &Limit) -> T) -> T {
        change(&mut self.bucket, &self.limit)
    }

    pub(crate) fn limit(&self) -> &Limit {
        &self.limit
    }

    pub(crate) fn estimator(&self) -> &RateEstimator {
        &self.estimator
    }

    pub(crate) fn mean_call_time(&self) -> Option<Span> {
        self.call_time
    }

    pub(crate) fn note_call_time(&mut self, taken: Span) {
        let mean = self.call_time.unwrap_or(taken);
        let part = |span: Span| span.nanos() / LATEST_PART;
        self.call_time = Some(Span::from_nanos(mean.nanos() - part(mean) + part(taken)));
    }

    /// Returns the same bucket under a limit that may differ in size.
    pub(crate) fn recast(&self, now: Time, limit: &Limit) -> Self {
        if self.estimator.nominal == *limit {
            let mut same = self.clone();
            same.forget_ceiling(now);
            return same;
        }
        let anew = AdaptiveLimit::new(limit, StartPolicy::Empty, now);
        let bucket = self.bucket.recast(now, &self.limit, &anew.limit).remembering_levels();
        AdaptiveLimit { bucket, call_time: self.call_time, quota_spent_until: self.quota_spent_until, ..anew }
    }

    /// Extends the limit to the calls that `limit` applies to, which differs in nothing else.
    pub(crate) fn widen(&mut self, limit: &Limit) {
        self.limit.widen(limit);
        self.estimator.nominal.widen(limit);
    }

    pub(crate) fn anchor(&mut self, now: Time, wall_clock: WallClockOrigin) {
        let limit = self.limit.clone().with_wall_clock(wall_clock);
        self.bucket.anchor(now, &self.limit, &limit);
        self.limit = limit;
        self.estimator.nominal = self.estimator.nominal.clone().with_wall_clock(wall_clock);
    }

    pub(crate) fn begin_with(&mut self, make: impl FnOnce(&Limit) -> Bucket) {
        self.bucket = make(&self.limit).remembering_levels();
        self.slow_start = None;
    }

    pub(crate) fn stated(&self) -> Option<Stated> {
        self.stated
    }

    pub(crate) fn set_capacity_in_force(&mut self, now: Time, capacity: Amount) {
        self.estimator.state(now, Some(capacity));
        self.review(now);
    }

    /// Enforces a capacity below the written one, or no longer. What was used stays used.
    fn enforce(&mut self, now: Time, capacity: Option<Amount>) {
        let before = self.limit.full();
        self.estimator.state(now, capacity);
        self.adapt(now);
        self.bucket.shrink(&self.limit, now, before - self.limit.full());
    }

    /// Holds the limit to what the upstream seems to allow; reviews raise this ceiling again. Token
    /// buckets are exempt, as their rate is estimated, and so are limits whose capacity is stated.
    pub(crate) fn hold(&mut self, now: Time, allowed: Amount) {
        let learns = matches!(self.limit.spec().learn, Learn::Above(_)) && !self.limit.has_tokens();
        let is_lower = self.ceiling.is_none_or(|ceiling| allowed < ceiling.capacity);
        if learns && is_lower && self.announced.is_none() {
            self.ceiling = Some(Ceiling::lowered(self.ceiling, now, allowed));
            self.enforce(now, Some(allowed));
        }
    }

    /// Drops the ceiling, as another limit may have rejected the calls.
    fn forget_ceiling(&mut self, now: Time) {
        if self.ceiling.take().is_some() {
            self.enforce(now, self.stated.map(|stated| stated.capacity));
        }
    }

    pub(crate) fn announced(&self) -> Option<Stated> {
        self.announced.filter(|announced| announced.capacity != self.limit.spec().capacity)
    }

    /// Notes the capacity that a response states; `None` if that of a served call states none.
    pub(crate) fn note_announced(&mut self, now: Time, capacity: Option<Amount>) {
        match capacity {
            None => self.untold = now,
            Some(capacity) if self.announced.is_some_and(|announced| announced.capacity == capacity) => {}
            Some(capacity) => (self.announced, self.is_told) = (Some(Stated { capacity, since: now }), false),
        }
    }

    /// Whether the upstream surely enforces this capacity: it is in force, or stated for `CERTAIN`.
    fn is_certain(&self, now: Time, capacity: Option<Amount>) -> bool {
        let is_it = |stated: &Stated| Some(stated.capacity) == capacity;
        let announced = self.announced.filter(is_it).map(|announced| announced.since.max(self.untold));
        self.stated.as_ref().is_some_and(is_it) || announced.is_some_and(|since| since + CERTAIN <= now)
    }

    /// Whether a reading may be of this limit, and may therefore change windows and capacity.
    pub(crate) fn may_be_of(&self, now: Time, reading: &Reading) -> bool {
        let spec = self.limit.spec();
        let fits = reading.reset.is_none_or(|reset| reset <= spec.period + reading.reset_grain);
        let is_least = |capacity: Amount| capacity.micros() >= spec.capacity.micros() / MIN_PART;
        fits && (reading.capacity.is_none_or(is_least) || self.is_certain(now, reading.capacity))
    }

    /// Returns an announced capacity that does not count, once, when people are to be told.
    pub(crate) fn tell_announced(&mut self, now: Time) -> Option<Amount> {
        let counts = |capacity| self.stated.is_some_and(|stated| stated.capacity == capacity);
        let is_due = |stated: &Stated| stated.since + TOLD_AFTER <= now && !counts(stated.capacity);
        let tells = self.announced().filter(is_due).filter(|_| !self.is_told);
        self.is_told |= tells.is_some();
        tells.map(|stated| stated.capacity)
    }

    /// Adopts the capacity that the response to a call at `at` states, up to the written one.
    /// Returns whether the capacity in force changes. The level first falls to the remaining
    /// amount, so that what the lower capacity cuts off does not also count as a loss of rate.
    pub(crate) fn learn_capacity(&mut self, now: Time, at: Time, reading: &Reading) -> bool {
        let is_certain = self.is_certain(now, reading.capacity);
        let stated = |capacity| Stated::below_written(self.limit.spec(), capacity, now, is_certain);
        let Some(stated) = reading.capacity.map(stated) else { return false };
        let changes = stated.map(|stated| stated.capacity) != self.stated.map(|stated| stated.capacity);
        if changes {
            self.stated = stated;
            let surplus = self.upstream_after(at, at).map(|level| level - self.credit(reading.remaining));
            self.bucket.shift(&self.limit, now, -surplus.unwrap_or_default().max(Credit::ZERO));
            self.ceiling = None;
            self.enforce(now, stated.map(|stated| stated.capacity));
        }
        changes
    }

    /// Returns the stock at `now` after payment of every promise.
    pub(crate) fn level(&self, now: Time) -> Credit {
        self.bucket.level(&self.limit, now)
    }

    pub(crate) fn is_unproven(&self) -> bool {
        self.slow_start.is_some()
    }

    pub(crate) fn note_start(&mut self, at: Time) {
        self.slow_start.iter_mut().for_each(|slow_start| slow_start.note_start(at));
    }

    /// Whether a call of this cost goes at most a little beyond the proven stock, if not all is.
    pub(crate) fn is_proven(&self, now: Time, cost: Amount) -> bool {
        let Some(slow_start) = &self.slow_start else { return true };
        let proven = slow_start.served(now).and_then(|at| self.level_after(at, at));
        let (cost, full) = (self.credit(cost), self.limit.full());
        let level = self.level(now) - cost;
        let beyond = if level < full.divided_by(NEARLY_EMPTY_PART) { cost } else { cost.times(MAX_CALLS_BEYOND) };
        level >= proven.unwrap_or(full) - beyond.max(self.margin())
    }

    /// Notes a served call that started at `at`. One from a nearly empty bucket proves all stock.
    pub(crate) fn note_served(&mut self, at: Time) {
        self.served = self.served.max(at);
        let Some(slow_start) = &mut self.slow_start else { return };
        slow_start.note_served(at);
        let nearly_empty = self.margin() + self.credit(Amount::ONE);
        if self.level_after(at, at).is_some_and(|level| level < nearly_empty) {
            self.slow_start = None;
        }
    }

    pub(crate) fn spent_until(&self, now: Time) -> Option<Time> {
        Some(self.quota_spent_until).filter(|until| *until > now)
    }

    /// Ends pauses, and forgets a spent quota and the ceiling.
    pub(crate) fn thaw(&mut self, now: Time) {
        self.bucket.set_freeze(None);
        self.quota_spent_until = Time::ORIGIN;
        self.forget_ceiling(now);
    }

    /// Marks the quota as spent until this time, or a later one marked before.
    pub(crate) fn mark_spent_until(&mut self, until: Time) {
        self.quota_spent_until = self.quota_spent_until.max(until);
    }

    pub(crate) fn advance(&mut self, now: Time) {
        self.bucket.advance(&self.limit, now);
        self.slow_start.take_if(|slow_start| slow_start.is_over(now));
    }

    /// Returns when the limit is due for a review, if it differs from the written one.
    pub(crate) fn next_review(&self) -> Option<Time> {
        self.estimator.next_review().into_iter().chain(self.ceiling.map(|ceiling| ceiling.raise_at)).min()
    }

    /// Adapts the limit to what was learned and raises a due ceiling. Returns whether it changed.
    pub(crate) fn review(&mut self, now: Time) -> bool {
        let Some(ceiling) = self.ceiling.filter(|ceiling| ceiling.raise_at <= now) else { return self.adapt(now) };
        let written = self.estimator.nominal.spec().capacity;
        self.ceiling = Some(ceiling.raised(now)).filter(|raised| raised.capacity < written);
        self.enforce(now, self.ceiling.map(|ceiling| ceiling.capacity));
        true
    }

    fn adapt(&mut self, now: Time) -> bool {
        self.estimator.review(now);
        let adapted = self.estimator.adapted(now);
        let changes = adapted != self.limit;
        if changes {
            self.bucket.adopt(now, &self.limit, &adapted);
            self.limit = adapted;
            assert!(self.limit.full() <= self.estimator.nominal.full(), "no more is enforced than is written");
        }
        changes
    }

    /// Returns the nanoseconds of refill that the upstream had left after a call at `at`, or has
    /// left now if that level is forgotten. If negative, a rejection was to be expected.
    pub(crate) fn refill_left(&self, now: Time, at: Time) -> i128 {
        let present = || self.bucket.level(&self.limit, now) + self.held_back();
        let level = self.upstream_after(at, at).unwrap_or_else(present);
        self.estimator.nominal.rate().nanos_of(level)
    }

    /// Learns that the upstream rejected a call of this cost at `at` and asked to wait for `after`.
    /// A rejected call takes nothing, so its charge returns. If the response also states what is
    /// left (`tells_left`), the rejection teaches nothing more unless it asks to wait.
    pub(crate) fn learn_rejection(&mut self, now: Time, at: Time, cost: Amount, after: Option<Span>, tells_left: bool) {
        let after_call = self.upstream_after(at, at);
        self.bucket.shift_from(&self.limit, now, at, self.credit(cost));
        self.slow_start = None;
        let missing = |adaptive: &AdaptiveLimit| adaptive.limit.rate().refill_within(after.unwrap_or(SILENT_REJECTION));
        let known = missing(self);
        // An expected rejection without `Retry-After` teaches nothing.
        let informative = after_call.filter(|level| after.is_some() || !tells_left && *level >= Credit::ZERO);
        if let Some(short) = informative.map(|level| level + known).filter(|short| *short > Credit::ZERO) {
            self.lower(now, at, short);
            // The deficit refills within `after`, even at the slower rate that was just learned.
            self.bucket.shift(&self.limit, now, known - missing(self));
        }
    }

    /// Learns that the upstream's level was within `remaining` at some time of `read`, after a call
    /// that took `own`. A deficit teaches nothing if the stock held back, less half the margin,
    /// covers it. A surplus teaches nothing if calls on their way explain it.
    pub(crate) fn learn_level(
        &mut self,
        now: Time,
        read: RangeInclusive<Time>,
        own: Amount,
        remaining: &RangeInclusive<Amount>,
    ) {
        let (asked, answered) = read.into_inner();
        let past = |at| self.upstream_after(at, at);
        let (Some(first), Some(last)) = (past(asked), past(answered)) else { return };
        let (least, short) = (first.min(last), self.credit(*remaining.end()));
        if short < least - self.held_back() + self.margin().divided_by(2) {
            return self.lower(now, asked, least - short);
        }
        let Some(before) = self.upstream_after(asked - ON_THE_WAY, answered) else { return };
        let surplus = self.credit(*remaining.start()) + self.credit(own) - before;
        if surplus > Credit::ZERO {
            self.raise(now, surplus);
        }
    }

    /// Learns a deficit of `short`. One from before the previous lesson corrects the level only.
    fn lower(&mut self, now: Time, at: Time, short: Credit) {
        assert!(short > Credit::ZERO, "only a deficit lowers");
        self.bucket.shift(&self.limit, now, -short);
        if self.estimator.known.is_some_and(|lesson| at < lesson) {
            return;
        }
        let full = self.bucket.last_full(&self.limit);
        let stock = self.estimator.fall_short(now, short, full);
        self.bucket.shift(&self.limit, now, -stock);
        self.review(now);
    }

    fn raise(&mut self, now: Time, surplus: Credit) {
        assert!(surplus > Credit::ZERO, "only a surplus raises");
        let refill = self.estimator.nominal.rate().refill_within(now.since(self.last_raise));
        self.last_raise = now;
        self.bucket.shift(&self.limit, now, surplus.min(refill.divided_by(RAISE_PART)));
    }

    /// Returns the upstream's level at `at` after the starts until `last`, as far as known.
    fn upstream_after(&self, last: Time, at: Time) -> Option<Credit> {
        Some(self.level_after(last, at)? + self.held_back())
    }

    fn level_after(&self, last: Time, at: Time) -> Option<Credit> {
        self.bucket.level_after(&self.limit, last, at)
    }

    fn held_back(&self) -> Credit {
        self.margin() + self.estimator.stock
    }

    fn margin(&self) -> Credit {
        self.credit(self.limit.margin())
    }

    /// Converts `amount`; the unit of credit is the same for the nominal and the learned rate.
    fn credit(&self, amount: Amount) -> Credit {
        self.limit.rate().credit(amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::spec::Algorithm;
    use rampmeter_protocol::name::Name;

    /// Perhaps it was the changed limit that rejected the calls.
    #[test]
    fn a_ceiling_ends_when_another_limit_changes() {
        let (name, now) = (|name| Name::new(name).unwrap(), Time::ORIGIN);
        let spec = LimitSpec::new(name("few"), name("requests"), Amount::new(100.0).unwrap(), Span::from_secs(1));
        let limit = Limit::new(&LimitSpec { algorithm: Algorithm::SlidingWindow, ..spec }, &[]);
        let mut adaptive = AdaptiveLimit::new(&limit, StartPolicy::Full, now);
        adaptive.hold(now, Amount::new(10.0).unwrap());
        assert_eq!(adaptive.limit().full(), limit.full().divided_by(10));
        assert_eq!(adaptive.recast(now, &limit).limit().full(), limit.full());
    }
}
