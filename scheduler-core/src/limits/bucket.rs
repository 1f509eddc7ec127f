//! The state of a limit for one key, whatever its algorithm.

use super::claims::BucketReading;
use super::counted_bucket::CountedBucket;
use super::freeze::Freeze;
use super::pending_debits::PendingDebits;
use super::timeline::StartKey;
use super::token_bucket::TokenBucket;
use super::usage::Usage;
use crate::arithmetic::{Correction, Credit, StartCost};
use crate::ids::Connection;
use crate::policy::Limit;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};

/// The least that a call can take.
const LEAST: Amount = Amount::SMALLEST;

/// Whether a call was made with its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMade {
    Yes,
    No,
}

/// A token bucket, or the usage of a limit that counts calls.
///
/// Guarantees that no committed start finds less than it costs: a new start is placed where every
/// later start can still pay. Only a report of stock that is already gone can break a promise.
#[derive(Clone, Debug)]
pub(crate) enum Bucket {
    Tokens(TokenBucket),
    Counted(Box<CountedBucket>),
}
use Bucket::{Counted, Tokens};

/// Calls a method that both kinds have.
macro_rules! for_both {
    ($bucket:expr, $kind:ident => $answer:expr) => {
        match $bucket {
            Tokens($kind) => $answer,
            Counted($kind) => $answer,
        }
    };
}

impl Bucket {
    /// A bucket with `level` at `now`; its past is unknown.
    pub(crate) fn new(limit: &Limit, now: Time, level: Credit) -> Self {
        Bucket::with_pending(limit, now, level, PendingDebits::none())
    }

    /// The same, with stock that a predecessor may have promised as `pending_debits`.
    pub(crate) fn with_pending(limit: &Limit, now: Time, level: Credit, pending_debits: PendingDebits) -> Self {
        match limit.has_tokens() {
            true => Tokens(TokenBucket::new(limit, now, level, pending_debits)),
            false => Counted(Box::new(CountedBucket::new(limit, now, now, limit.full() - level))),
        }
    }

    /// A bucket that may have been emptied at any time until `empty`.
    pub(crate) fn empty_until(limit: &Limit, now: Time, empty: Time) -> Self {
        match limit.has_tokens() {
            true => Bucket::new(limit, now, limit.rate().refill(now) - limit.rate().refill(empty)),
            false => Counted(Box::new(CountedBucket::new(limit, now, empty, limit.full()))),
        }
    }

    /// A bucket that continues a predecessor's usage; none if the limit's buckets hold tokens.
    pub(crate) fn from_usage(limit: &Limit, then: Time, usage: &Usage) -> Option<Self> {
        (!limit.has_tokens()).then(|| Counted(Box::new(CountedBucket::restored(limit, then, usage))))
    }

    /// The same bucket, which remembers its levels to compare them with the upstream's reports.
    pub(crate) fn remembering_levels(mut self) -> Self {
        for_both!(&mut self, kind => kind.remember_levels());
        self
    }

    /// Learns what is left from an answer of the upstream at `now`. Returns whether the answer is
    /// believed.
    pub(crate) fn learn(&mut self, limit: &Limit, now: Time, reading: &BucketReading) -> bool {
        match self {
            Tokens(tokens) => {
                tokens.learn_remaining(limit, now, reading.at, reading.remaining);
                true
            }
            Counted(counted) => counted.learn(limit, now, reading),
        }
    }

    /// Continues after the upstream has stated a capacity that is lower by `by`.
    pub(crate) fn shrink(&mut self, limit: &Limit, now: Time, by: Credit) {
        if let Counted(counted) = self {
            counted.shrink(limit, now, by);
        }
    }

    /// When the next claim expires.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.counted()?.next_expiry()
    }

    /// The bucket of tokens, if the limit has tokens.
    pub(crate) fn tokens(&self) -> Option<&TokenBucket> {
        if let Tokens(tokens) = self { Some(tokens) } else { None }
    }

    /// The usage, if the limit counts calls.
    pub(crate) fn counted(&self) -> Option<&CountedBucket> {
        if let Counted(counted) = self { Some(counted) } else { None }
    }

    pub(crate) fn is_as_new(&self, limit: &Limit, now: Time) -> bool {
        self.freeze().is_none() && self.is_unused(limit, now)
    }

    fn is_unused(&self, limit: &Limit, now: Time) -> bool {
        for_both!(self, kind => kind.is_unused(limit, now))
    }

    /// Drops state that is not needed any more, and a freeze that no call came to probe.
    pub(crate) fn compact(&mut self, limit: &Limit, now: Time) {
        if self.is_unused(limit, now) {
            self.thaw_if(|freeze| freeze.is_unprobed(now));
        }
        if let Tokens(tokens) = self {
            tokens.compact();
        }
    }

    /// The earliest time from `from` on at which `cost` can be committed.
    ///
    /// The bucket must be [advanced](Bucket::advance) to now, and `from` must not lie before now.
    pub(crate) fn earliest(&self, limit: &Limit, from: Time, cost: StartCost) -> Time {
        let from = from.max(self.freeze().map_or(Time::ORIGIN, |freeze| freeze.next_start()));
        for_both!(self, kind => kind.earliest(limit, from, cost))
    }

    /// Commits a start at a time that [`Bucket::earliest`] found.
    pub(crate) fn commit(&mut self, limit: &Limit, now: Time, key: StartKey, cost: StartCost) {
        self.if_frozen(|freeze| freeze.note_start(key));
        for_both!(self, kind => kind.commit(limit, now, key, cost));
    }

    /// Commits a start that the level has paid for; its lease ends at `end`, if that is known.
    pub(crate) fn restore_promise(
        &mut self,
        limit: &Limit,
        now: Time,
        key: StartKey,
        cost: StartCost,
        end: Option<Time>,
    ) {
        match self {
            Tokens(tokens) => tokens.restore_promise(limit, now, key, cost),
            Counted(counted) => counted.restore_promise(limit, key, cost, end),
        }
    }

    /// Takes a promised start back; false if it is past or unknown.
    pub(crate) fn withdraw(&mut self, limit: &Limit, key: StartKey) -> bool {
        self.if_frozen(|freeze| freeze.note_return(key));
        for_both!(self, kind => kind.withdraw(limit, key))
    }

    /// Corrects the call's cost; `made` tells whether the call was made.
    pub(crate) fn correct(&mut self, limit: &Limit, now: Time, key: StartKey, correction: Correction, made: CallMade) {
        if made == CallMade::No {
            // If the call was to probe a freeze, another call has to.
            self.if_frozen(|freeze| freeze.note_return(key));
        }
        for_both!(self, kind => kind.correct(limit, now, key, correction));
    }

    /// Extends the lease of the call of `key`; false if there was no room for it.
    pub(crate) fn renew(&mut self, limit: &Limit, now: Time, key: StartKey, cost: StartCost) -> bool {
        match self {
            Tokens(_) => true,
            Counted(counted) => counted.renew(limit, now, key, cost),
        }
    }

    /// The freeze, until its probe is known to be served.
    pub(crate) fn freeze(&self) -> Option<Freeze> {
        match self {
            Tokens(tokens) => tokens.freeze(),
            Counted(counted) => counted.freeze,
        }
    }

    fn set_freeze(&mut self, freeze: Option<Freeze>) {
        match self {
            Tokens(tokens) => tokens.set_freeze(freeze),
            Counted(counted) => counted.freeze = freeze,
        }
    }

    fn if_frozen(&mut self, change: impl FnOnce(&mut Freeze)) {
        if let Some(mut freeze) = self.freeze() {
            change(&mut freeze);
            self.set_freeze(Some(freeze));
        }
    }

    fn thaw_if(&mut self, ends: impl FnOnce(&Freeze) -> bool) {
        if self.freeze().as_ref().is_some_and(ends) {
            self.set_freeze(None);
        }
    }

    /// Freezes the bucket: no call starts before `until`, and then only a probe.
    pub(crate) fn freeze_until(&mut self, until: Time) {
        self.add_freeze(Freeze::new(until));
    }

    /// Joins a freeze with the present one, if there is one.
    pub(crate) fn add_freeze(&mut self, added: Freeze) {
        self.set_freeze(Some(Freeze::join(self.freeze(), added)));
    }

    /// Notes that `connection` reports a longer pause than is believed.
    pub(crate) fn note_longer_pause(&mut self, connection: Connection) {
        self.if_frozen(|freeze| freeze.note_longer_pause(connection));
    }

    /// Ends the freeze whose probe is `key`.
    pub(crate) fn thaw(&mut self, key: StartKey) {
        self.thaw_if(|freeze| freeze.is_probed_by(key));
    }

    /// Ends any freeze.
    pub(crate) fn thaw_now(&mut self) {
        self.set_freeze(None);
    }

    /// Whether starts after `from` and until `until` are promised.
    pub(crate) fn promises_between(&self, from: Time, until: Time) -> bool {
        for_both!(self, kind => kind.promises_between(from, until))
    }

    /// Continues under a limit with another rate or full level; only limits of tokens learn these.
    pub(crate) fn adopt(&mut self, now: Time, from: &Limit, to: &Limit) {
        if let Tokens(tokens) = self {
            tokens.adopt(now, from, to);
        }
    }

    /// Continues under a limit whose windows may follow another clock.
    pub(crate) fn anchor(&mut self, now: Time, from: &Limit, to: &Limit) {
        if from.counting() != to.counting() {
            *self = self.recast(now, from, to);
        }
    }

    /// The same bucket under a limit of another size.
    pub(crate) fn recast(&self, now: Time, from: &Limit, to: &Limit) -> Self {
        let mut recast = match self {
            Tokens(tokens) => Tokens(tokens.recast(now, from, to)),
            Counted(counted) => Counted(Box::new(counted.recast(now, from, to))),
        };
        recast.set_freeze(self.freeze());
        recast
    }

    /// Corrects the level by `by` from `since` on.
    pub(crate) fn shift_from(&mut self, limit: &Limit, now: Time, since: Time, by: Credit) {
        if let Tokens(tokens) = self {
            tokens.shift_from(limit, now, since, by);
        }
    }

    /// Corrects the level by `by`, now and in the past.
    pub(crate) fn shift(&mut self, limit: &Limit, now: Time, by: Credit) {
        self.shift_from(limit, now, Time::ORIGIN, by);
    }

    /// Turns promises whose time has come into spent stock; ends a freeze whose probe is overdue.
    pub(crate) fn advance(&mut self, limit: &Limit, now: Time) {
        for_both!(self, kind => kind.advance(limit, now));
        self.thaw_if(|freeze| freeze.is_over(now));
    }

    /// Takes the whole stock. For windows, this is the rest of the present one.
    pub(crate) fn drain(&mut self, limit: &Limit, now: Time) {
        let level = if limit.has_tokens() { self.level(limit, now) } else { self.level_until(limit, now, now) };
        self.debit(limit, now, level.max(Credit::ZERO));
    }

    /// Takes `credit`; the level may fall below zero.
    pub(crate) fn debit(&mut self, limit: &Limit, now: Time, credit: Credit) {
        for_both!(self, kind => kind.debit(limit, now, credit));
    }

    /// The stock at `now`, if every promise were paid now.
    pub(crate) fn level(&self, limit: &Limit, now: Time) -> Credit {
        for_both!(self, kind => kind.level(limit, now))
    }

    /// When a token bucket was or will be empty. For any other bucket, when it was last used or
    /// will be.
    pub(crate) fn empty_at(&self, limit: &Limit, now: Time) -> Time {
        if limit.has_tokens() {
            return limit.empty_at(now, self.level_when_paid(limit, now));
        }
        self.last_promise().max(self.last_use_ahead(limit, now)).unwrap_or(now).max(now)
    }

    /// The level for a successor: all promises are paid, and nothing else is granted before.
    pub(crate) fn level_when_paid(&self, limit: &Limit, now: Time) -> Credit {
        let level = self.level(limit, now);
        self.last_promise().map_or(level, |last| level.min(-limit.rate().refill_within(last.since(now))))
    }

    /// The level if promises until `time` were paid now; without tokens, the highest until then.
    pub(crate) fn level_until(&self, limit: &Limit, now: Time, time: Time) -> Credit {
        for_both!(self, kind => kind.level_until(limit, now, time))
    }

    /// The stock at `now`, if nothing were held for the starts of `held`.
    pub(crate) fn level_without(&self, limit: &Limit, now: Time, held: impl Iterator<Item = StartKey>) -> Credit {
        let held = self.counted().map_or(Credit::ZERO, |counted| counted.used_now_by(limit, now, held));
        self.level_until(limit, now, now) + held
    }

    pub(crate) fn next_promise(&self) -> Option<Time> {
        for_both!(self, kind => kind.next_promise())
    }

    /// When the last promise starts, or the last pending debit ends.
    pub(crate) fn last_promise(&self) -> Option<Time> {
        for_both!(self, kind => kind.last_promise())
    }

    /// The last use that outlasts every call that starts now; none for tokens.
    pub(crate) fn last_use_ahead(&self, limit: &Limit, now: Time) -> Option<Time> {
        self.counted()?.last_use_ahead(limit, now)
    }

    /// When the level is no longer below zero.
    pub(crate) fn next_free(&self, limit: &Limit, now: Time) -> Time {
        self.paid_after(limit, now, Credit::ZERO, StartCost { credit: Credit::ZERO, tier: 0 })
    }

    /// When calls can take something again: the freeze is over, and stock or a place is free.
    pub(crate) fn opens(&self, limit: &Limit, now: Time) -> Time {
        // A level of zero rises at once in a bucket of tokens, and elsewhere when something ends.
        let least = if limit.has_tokens() { Amount::ZERO } else { LEAST };
        let paid = self.paid_after(limit, now, Credit::ZERO, limit.start_cost(least, 0));
        self.freeze().map_or(paid, |freeze| paid.max(freeze.until()))
    }

    /// When the oldest call in flight will probably end, if calls take `call_time`.
    pub(crate) fn likely_end(&self, limit: &Limit, now: Time, call_time: Span) -> Option<Time> {
        let oldest = self.counted().filter(|_| limit.is_until_settled())?.oldest_call()?;
        Some((oldest + call_time).max(now))
    }

    /// When everything promised, `backlog` and `cost` have been paid.
    pub(crate) fn paid_after(&self, limit: &Limit, now: Time, backlog: Credit, cost: StartCost) -> Time {
        for_both!(self, kind => kind.paid_after(limit, now, backlog, cost))
    }
}
