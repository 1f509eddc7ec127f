//! The state of a limit for one key, whatever its algorithm.

mod counted_bucket;
mod token_bucket;

use super::freeze::Freeze;
use super::timeline::StartKey;
use super::usage::{BucketRecord, NEAR, UsageBlock, level_when_paid};
use super::windows::{BucketReading, WindowState};
use Bucket::{Counted, Tokens};
use counted_bucket::CountedBucket;
use rampmeter_policy::arithmetic::{Correction, Credit, StartCost};
use rampmeter_policy::ids::Tier;
use rampmeter_policy::{Counting, Limit};
use rampmeter_protocol::time::{Span, Time};
use token_bucket::TokenBucket;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMade {
    /// It may still be on its way to the upstream.
    Yes,
    /// The upstream has counted and answered it.
    Answered,
    No,
}

/// A token bucket, or the usage of a limit that counts calls.
///
/// Guarantees that no committed start finds less than it costs: a new start is placed where every
/// later start can still pay. Only a report of stock that is already gone can break a promise.
///
/// A new kind is a variant, a file with all methods of `kinds_have!`, an arm of `made_for!`, of
/// `of_kind!` and of `recast`, and possibly an own `one_kind_has!`.
#[derive(Clone, Debug)]
pub(crate) enum Bucket {
    Tokens(TokenBucket),
    Counted(Box<CountedBucket>),
}

macro_rules! made_for {
    ($limit:expr, $make:ident($($given:expr),*)) => {
        match $limit.counting() {
            Counting::Tokens => Tokens(TokenBucket::$make($($given),*)),
            Counting::Windows(_) | Counting::Occupied { .. } => Counted(Box::new(CountedBucket::$make($($given),*))),
        }
    };
}

macro_rules! of_kind {
    ($bucket:expr, $kind:ident => $answer:expr) => {
        match $bucket {
            Tokens($kind) => $answer,
            Counted($kind) => $answer,
        }
    };
}

/// Methods of a bucket that are those of its kind.
macro_rules! kinds_have {
    ($($(#[$about:meta])* fn $name:ident($self:ident: $by:ty $(, $given:ident: $type:ty)*) $(-> $answer:ty)?;)*) => {
        impl Bucket {$(
            $(#[$about])*
            pub(crate) fn $name($self: $by $(, $given: $type)*) $(-> $answer)? {
                of_kind!($self, kind => kind.$name($($given),*))
            }
        )*}
    };
}

/// Methods of one kind, each with the result for all other buckets.
macro_rules! one_kind_has {
    ($one:ident: $($(#[$about:meta])* fn $name:ident($self:ident: $by:ty $(, $given:ident: $type:ty)*) $(-> $answer:ty)?, or $other:expr;)*) => {
        impl Bucket {$(
            $(#[$about])*
            pub(crate) fn $name($self: $by $(, $given: $type)*) $(-> $answer)? {
                if let $one(kind) = $self { kind.$name($($given),*) } else { $other }
            }
        )*}
    };
}

one_kind_has! {
    Counted:
    /// Continues after the upstream has stated a capacity that is lower by `by`. The level of
    /// tokens was [adopted](Bucket::adopt) already.
    fn shrink(self: &mut Self, limit: &Limit, now: Time, by: Credit), or ();
    /// Returns when reported usage expires. A report on tokens corrects their level for good.
    fn next_expiry(self: &Self) -> Option<Time>, or None;
    /// Extends the lease of the call of `key`; false if there was no room. Tokens are not held.
    fn renew(self: &mut Self, limit: &Limit, now: Time, key: StartKey, cost: StartCost) -> bool, or true;
    /// Ends a call of a predecessor that has no key here. Returns whether a place was kept for it.
    fn end_inherited(self: &mut Self, limit: &Limit, now: Time, cost: StartCost) -> bool, or false;
    /// Returns when the lease of the call of `key` ends; `None` if it holds nothing.
    fn lease_end(self: &Self, key: StartKey) -> Option<Time>, or None;
    /// Returns when the usage of a call ends that the upstream has answered by now, if that is sooner
    /// than it would end otherwise.
    fn sooner_end(self: &Self, limit: &Limit, now: Time, key: StartKey) -> Option<Time>, or None;
    /// Ends the usage of such a call then.
    fn end_jitter(self: &mut Self, limit: &Limit, now: Time, key: StartKey), or ();
    /// Estimates when the oldest call in flight ends, if calls take `call_time`.
    fn likely_end(self: &Self, limit: &Limit, now: Time, call_time: Span) -> Option<Time>, or None;
    /// Returns the last instant at which known usage counts, if it outlasts a call that starts now.
    fn last_use_ahead(self: &Self, limit: &Limit, now: Time) -> Option<Time>, or None;
    /// Estimates what the calls of a quota that are not settled will give back.
    fn returns(self: &Self, limit: &Limit, now: Time) -> Credit, or Credit::ZERO;
    /// Whether calls of a quota have cost less than they reserved.
    fn may_return(self: &Self) -> bool, or false;
    /// Expects the settle of a call that usage includes.
    fn expect_settle(self: &mut Self, now: Time, key: StartKey, cost: Credit), or ();
    /// Returns the present window and others' use of it, which a level of tokens includes.
    fn window_state(self: &Self, limit: &Limit, now: Time) -> WindowState, or WindowState::default();
}

one_kind_has! {
    Tokens:
    fn drop_unneeded(self: &mut Self), or ();
    /// Replaces the limit by one with a learned rate or full level, which only token buckets have.
    fn adopt(self: &mut Self, now: Time, from: &Limit, to: &Limit), or ();
    /// Corrects the level by `by` from `since` on. Usage by others is
    /// [learned](Bucket::learn) with its time instead.
    fn shift_from(self: &mut Self, limit: &Limit, now: Time, since: Time, by: Credit), or ();
    /// Returns the level at `time` after the starts until `last_start`, if that is remembered.
    fn level_after(self: &Self, limit: &Limit, last_start: Time, time: Time) -> Option<Credit>, or None;
    /// Returns when the bucket was last full right before a start, if that is remembered.
    fn last_full(self: &Self, limit: &Limit) -> Option<Time>, or None;
    /// Returns how much more it could have held at past times, for refunds by a successor. Counted
    /// calls are corrected one by one.
    fn rooms(self: &Self, limit: &Limit, now: Time) -> Vec<(Span, u64)>, or Vec::new();
}

kinds_have! {
    /// Learns what is left from a response at `now`. Returns whether it is believed.
    fn learn(self: &mut Self, limit: &Limit, now: Time, reading: &BucketReading) -> bool;
    /// Commits a start that the level has paid for; its lease ends at `end`, if that is known.
    fn commit_paid(self: &mut Self, limit: &Limit, now: Time, key: StartKey, cost: StartCost, end: Option<Time>);
    /// Returns the freeze, until its probe is known to be served.
    fn freeze(self: &Self) -> Option<Freeze>;
    fn set_freeze(self: &mut Self, freeze: Option<Freeze>);
    fn is_unused(self: &Self, limit: &Limit, now: Time) -> bool;
    fn promises_between(self: &Self, from: Time, until: Time) -> bool;
    /// Takes the whole stock. For windows, this is the rest of the present one.
    fn drain(self: &mut Self, limit: &Limit, now: Time);
    /// Returns the stock at `now` if every promise were paid now.
    fn level(self: &Self, limit: &Limit, now: Time) -> Credit;
    /// Returns the level for near starts. A window's next amount counts if it comes within `soon`.
    fn near_level(self: &Self, limit: &Limit, now: Time, soon: Span) -> Credit;
    /// Returns the stock at `now` if nothing were held for the starts of `held`.
    fn level_without(self: &Self, limit: &Limit, now: Time, held: impl Iterator<Item = StartKey>) -> Credit;
    /// Returns when a token bucket is empty, or when any other was or will be last used.
    fn empty_at(self: &Self, limit: &Limit, now: Time) -> Time;
    fn next_promise(self: &Self) -> Option<Time>;
    /// Returns when the last promise starts, or the last pending debit ends.
    fn last_promise(self: &Self) -> Option<Time>;
    fn paid_after(self: &Self, limit: &Limit, now: Time, backlog: Credit, cost: StartCost) -> Time;
}

impl Bucket {
    /// Creates a bucket with `level` at `now`; its past is unknown.
    pub(crate) fn new(limit: &Limit, now: Time, level: Credit) -> Self {
        made_for!(limit, new(limit, now, level))
    }

    /// Creates a bucket that may have been emptied at any time until `empty`.
    pub(crate) fn empty_until(limit: &Limit, now: Time, empty: Time) -> Self {
        made_for!(limit, empty_until(limit, now, empty))
    }

    /// Continues at `then` the bucket that a predecessor has recorded.
    pub(crate) fn from_record(limit: &Limit, then: Time, record: &BucketRecord) -> Self {
        made_for!(limit, from_record(limit, then, record))
    }

    /// Records the bucket for a successor, with `level` left. All of `grant` may still be promised.
    /// Promises before `listed` are pending debits.
    pub(crate) fn record(&self, limit: &Limit, level: Credit, grant: UsageBlock, listed: StartKey) -> BucketRecord {
        BucketRecord {
            micros: limit.rate().micros(level),
            pending_debits: of_kind!(self, kind => kind.debits(limit, grant, listed)),
            usage: of_kind!(self, kind => kind.usage(limit, grant, grant.until)),
            // After a crash no call is known that a token bucket refunds.
            rooms: if grant.credit == Credit::ZERO { self.rooms(limit, grant.from) } else { Vec::new() },
        }
    }

    /// Records a key's bucket, with all promises and the budget spent.
    pub(crate) fn key_record(&self, limit: &Limit, now: Time, budget: Credit) -> BucketRecord {
        // A full bucket refills only once its budget is used, which may be `NEAR` from now.
        let late = if budget > Credit::ZERO { limit.rate().refill_within(NEAR) } else { Credit::ZERO };
        let unknown = UsageBlock { from: now, until: now + NEAR, credit: budget };
        let level = level_when_paid(limit, now, self.level(limit, now), self.last_promise()) - budget - late;
        let usage = of_kind!(self, kind => kind.usage(limit, unknown, now));
        BucketRecord { micros: limit.rate().micros(level), usage, ..BucketRecord::of_key(0, None) }
    }

    /// Makes the bucket remember its levels, to compare them with the upstream's reports.
    pub(crate) fn remembering_levels(mut self) -> Self {
        of_kind!(&mut self, kind => kind.remember_levels());
        self
    }

    pub(crate) fn is_as_new(&self, limit: &Limit, now: Time) -> bool {
        self.freeze().is_none() && self.is_unused(limit, now)
    }

    /// Drops state that is no longer needed, such as a freeze that needs no probe.
    pub(crate) fn compact(&mut self, limit: &Limit, now: Time) {
        if self.is_unused(limit, now) {
            self.thaw_if(|freeze| freeze.is_unprobed(now));
        }
        self.drop_unneeded();
    }

    /// Returns the earliest time from `from` on at which `cost` can be committed. The bucket must
    /// be [advanced](Bucket::advance) to now, and `from` must not lie before now.
    pub(crate) fn earliest(&self, limit: &Limit, from: Time, cost: StartCost) -> Time {
        let from = from.max(self.freeze().map_or(Time::ORIGIN, |freeze| freeze.next_start()));
        of_kind!(self, kind => kind.earliest(limit, from, cost))
    }

    /// Commits a start at a time that [`Bucket::earliest`] found.
    pub(crate) fn commit(&mut self, limit: &Limit, now: Time, key: StartKey, cost: StartCost) {
        self.if_frozen(|freeze| freeze.note_start(key));
        of_kind!(self, kind => kind.commit(limit, now, key, cost));
    }

    /// Withdraws a promised start; false if it is past or unknown.
    pub(crate) fn withdraw(&mut self, limit: &Limit, key: StartKey) -> bool {
        self.if_frozen(|freeze| freeze.note_return(key));
        of_kind!(self, kind => kind.withdraw(limit, key))
    }

    /// Corrects the cost of a call, which frees the probe if the call was not `made`.
    pub(crate) fn correct(&mut self, limit: &Limit, now: Time, key: StartKey, correction: Correction, made: CallMade) {
        if made == CallMade::No {
            self.if_frozen(|freeze| freeze.note_return(key));
        }
        of_kind!(self, kind => kind.correct(limit, now, key, correction));
        if made == CallMade::Answered {
            self.end_jitter(limit, now, key);
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

    pub(crate) fn add_freeze(&mut self, added: Freeze) {
        self.set_freeze(Some(Freeze::join(self.freeze(), added)));
    }

    pub(crate) fn thaw(&mut self, key: StartKey) {
        self.thaw_if(|freeze| freeze.is_probed_by(key));
    }

    /// Adopts a limit whose windows, if it has any, follow another clock.
    pub(crate) fn anchor(&mut self, now: Time, from: &Limit, to: &Limit) {
        if to.alignment().is_some() {
            *self = self.recast(now, from, to);
        }
    }

    pub(crate) fn recast(&self, now: Time, from: &Limit, to: &Limit) -> Self {
        let mut recast = match self {
            Tokens(tokens) => Tokens(tokens.recast(now, from, to)),
            Counted(counted) => Counted(Box::new(counted.recast(now, from, to))),
        };
        recast.set_freeze(self.freeze());
        recast
    }

    pub(crate) fn shift(&mut self, limit: &Limit, now: Time, by: Credit) {
        self.shift_from(limit, now, Time::ORIGIN, by);
    }

    /// Spends the promises whose time has come, and ends a freeze whose probe is overdue.
    pub(crate) fn advance(&mut self, limit: &Limit, now: Time) {
        of_kind!(self, kind => kind.advance(limit, now));
        self.thaw_if(|freeze| freeze.is_over(now));
    }

    /// Returns when the level is no longer below zero.
    pub(crate) fn next_free(&self, limit: &Limit, now: Time) -> Time {
        self.paid_after(limit, now, Credit::ZERO, StartCost { credit: Credit::ZERO, tier: Tier::NO_HEADROOM })
    }

    /// Returns when calls can take something: no freeze holds them, and stock or a place is free.
    pub(crate) fn opens(&self, limit: &Limit, now: Time) -> Time {
        let paid = of_kind!(self, kind => kind.opens(limit, now));
        self.freeze().map_or(paid, |freeze| paid.max(freeze.until))
    }
}
