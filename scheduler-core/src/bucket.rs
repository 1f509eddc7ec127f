//! The state of a limit for one key, however the limit counts.

use crate::counter::{Counter, Unknown};
use crate::credit::Credit;
use crate::freeze::Freeze;
use crate::limit::Limit;
use crate::taken::Taken;
use crate::timeline::{Draw, Key};
use crate::token_bucket::TokenBucket;
use crate::withheld::Withheld;
use rampmeter_protocol::time::Time;

/// A bucket of tokens, or a counter of something else.
///
/// Guarantees that no committed start finds less than it costs, whatever is committed later: a newcomer is put where every start
/// behind it can still pay. Only what tells of something that is gone already can break a promise.
#[derive(Clone, Debug)]
pub(crate) enum Bucket {
    Tokens(TokenBucket),
    Counted(Box<Counter>),
}
use Bucket::{Counted, Tokens};

impl Bucket {
    /// A bucket with `level` at `now`. What it was before is unknown.
    pub(crate) fn new(limit: &Limit, now: Time, level: Credit) -> Self {
        match Counter::new(limit, now, level) {
            Some(counter) => Counted(Box::new(counter)),
            None => Tokens(TokenBucket::new(limit, now, level)),
        }
    }

    /// A bucket that may have been emptied at any time until `empty`.
    pub(crate) fn empty_until(limit: &Limit, now: Time, empty: Time) -> Self {
        match Counter::used_until(limit, now, empty) {
            Some(counter) => Counted(Box::new(counter)),
            None => {
                let level = limit.rate().refill(now) - limit.rate().refill(empty);
                Tokens(TokenBucket::new(limit, now, level))
            }
        }
    }

    /// The same, which remembers where its level has been, for what the upstream says of that.
    pub(crate) fn tracked(self) -> Self {
        match self {
            Tokens(tokens) => Tokens(tokens.tracked()),
            Counted(counter) => Counted(counter),
        }
    }

    /// A bucket that its predecessor may have promised this much of.
    pub(crate) fn withholding(limit: &Limit, now: Time, level: Credit, withheld: Withheld) -> Self {
        match Counter::new(limit, now, level) {
            Some(counter) => Counted(Box::new(counter)),
            None => Tokens(TokenBucket::withholding(limit, now, level, withheld)),
        }
    }

    /// A bucket of which its predecessor has told; none where the limit's buckets hold tokens.
    pub(crate) fn counted(limit: &Limit, then: Time, taken: &Taken) -> Option<Self> {
        Counter::of(limit, then, taken).map(|counter| Counted(Box::new(counter)))
    }

    /// What a successor has to know of one without tokens: what is taken, what else may be granted, and that calls may be renewed
    /// until `renewed`.
    pub(crate) fn taken(&self, limit: &Limit, now: Time, unknown: &[Unknown], renewed: Time) -> Option<Taken> {
        match self {
            Tokens(_) => None,
            Counted(counter) => Some(counter.taken(limit, now, unknown, renewed)),
        }
    }

    /// Whether it is as a new one that is full.
    pub(crate) fn is_as_new(&self, limit: &Limit, now: Time) -> bool {
        match self {
            Tokens(tokens) => tokens.is_as_new(limit, now),
            Counted(counter) => counter.is_unused(now),
        }
    }

    /// Does without what nobody asks for.
    pub(crate) fn shed(&mut self, limit: &Limit, now: Time) {
        match self {
            Tokens(tokens) => tokens.shed(limit, now),
            Counted(counter) => counter.shed(now),
        }
    }

    /// The earliest time from `from` on at which `draw` can be committed. The bucket must be
    /// [advanced](Bucket::advance) to now, and `from` must not lie before now.
    pub(crate) fn earliest(&self, limit: &Limit, from: Time, draw: Draw) -> Time {
        match self {
            Tokens(tokens) => tokens.earliest(limit, from, draw),
            Counted(counter) => counter.earliest(limit, from, draw),
        }
    }

    /// Commits a start at a time that [`Bucket::earliest`] found.
    pub(crate) fn commit(&mut self, limit: &Limit, now: Time, key: Key, draw: Draw) {
        match self {
            Tokens(tokens) => tokens.commit(limit, now, key, draw),
            Counted(counter) => counter.commit(limit, now, key, draw),
        }
    }

    /// Commits a start that the bucket has paid for already, and holds until `end` if that is known.
    pub(crate) fn promise_again(&mut self, limit: &Limit, now: Time, key: Key, draw: Draw, end: Option<Time>) {
        match self {
            Tokens(tokens) => tokens.promise_again(limit, now, key, draw),
            Counted(counter) => counter.promise_again(limit, now, key, draw, end),
        }
    }

    /// Until when the call of `key` holds what it takes, unless it is settled or renewed before.
    pub(crate) fn lease(&self, key: Key) -> Option<Time> {
        match self {
            Tokens(_) => None,
            Counted(counter) => counter.lease(key),
        }
    }

    /// Takes a promised start back; false if it is past or unknown.
    pub(crate) fn withdraw(&mut self, limit: &Limit, key: Key) -> bool {
        match self {
            Tokens(tokens) => tokens.withdraw(limit, key),
            Counted(counter) => counter.withdraw(limit, key),
        }
    }

    /// Learns that the call of `key` took `actual`, where it was charged something else; or that it was never made.
    pub(crate) fn correct(
        &mut self,
        limit: &Limit,
        now: Time,
        key: Key,
        (charged, actual): (Credit, Credit),
        made: bool,
    ) {
        let since = key.at.min(now);
        if !made {
            self.take_back_probe(key);
        }
        match self {
            Counted(counter) => counter.correct(limit, key, (charged, actual)),
            Tokens(tokens) if actual < charged => tokens.refund(limit, now, since, charged - actual),
            Tokens(tokens) if actual > charged => tokens.debit_since(limit, now, since, actual - charged),
            Tokens(_) => {}
        }
    }

    /// The probe of a freeze was not made: another has to be.
    fn take_back_probe(&mut self, key: Key) {
        match self {
            Tokens(tokens) => tokens.take_back_probe(key),
            Counted(counter) => counter.take_back_probe(key),
        }
    }

    /// The call of `key` is still in flight. Whether there was room for it to be.
    pub(crate) fn renew(&mut self, limit: &Limit, now: Time, key: Key, draw: Draw) -> bool {
        match self {
            Tokens(_) => true,
            Counted(counter) => counter.renew(limit, now, key, draw),
        }
    }

    /// Nobody starts before `until`, and then one alone.
    pub(crate) fn freeze_until(&mut self, until: Time) {
        match self {
            Tokens(tokens) => tokens.freeze_until(until),
            Counted(counter) => counter.freeze_until(until),
        }
    }

    /// The freeze, if there is one whose probe is not known to be served.
    pub(crate) fn freeze(&self) -> Option<Freeze> {
        match self {
            Tokens(tokens) => tokens.freeze(),
            Counted(counter) => counter.freeze(),
        }
    }

    /// Ends the freeze whose probe `key` is.
    pub(crate) fn thaw(&mut self, key: Key) {
        match self {
            Tokens(tokens) => tokens.thaw(key),
            Counted(counter) => counter.thaw(key),
        }
    }

    /// Whether starts in this time are promised.
    pub(crate) fn promises_between(&self, from: Time, until: Time) -> bool {
        match self {
            Tokens(tokens) => tokens.promises_between(from, until),
            Counted(counter) => counter.promises_between(from, until),
        }
    }

    /// Goes on under a limit that differs in its rate or in what a full bucket holds. Of what counts something else than tokens
    /// nothing like that is learned.
    pub(crate) fn adopt(&mut self, now: Time, from: &Limit, to: &Limit) {
        match self {
            Tokens(tokens) => tokens.adopt(now, from, to),
            Counted(_) => {}
        }
    }

    /// Goes on under a limit whose windows are cut by another clock.
    pub(crate) fn anchor(&mut self, now: Time, from: &Limit, to: &Limit) {
        match self {
            Tokens(_) => {}
            Counted(counter) => counter.anchor(now, from, to),
        }
    }

    /// The same bucket under a limit of another size.
    pub(crate) fn recast(&self, now: Time, from: &Limit, to: &Limit) -> Self {
        match self {
            Tokens(tokens) => Tokens(tokens.recast(now, from, to)),
            Counted(counter) => Counted(Box::new(counter.recast(now, from, to))),
        }
    }

    /// The level right behind what started until `time`, as far as that is remembered.
    pub(crate) fn level_after(&self, limit: &Limit, time: Time) -> Option<Credit> {
        match self {
            Tokens(tokens) => tokens.level_after(limit, time),
            Counted(_) => None,
        }
    }

    /// Learns that the level has been off by this much since then.
    pub(crate) fn shift_from(&mut self, limit: &Limit, now: Time, since: Time, by: Credit) {
        match self {
            Tokens(tokens) => tokens.shift_from(limit, now, since, by),
            Counted(_) => {}
        }
    }

    /// Learns that the level has been off by this much all along.
    pub(crate) fn shift(&mut self, limit: &Limit, now: Time, by: Credit) {
        self.shift_from(limit, now, Time::ORIGIN, by);
    }

    /// When the bucket was last full right before a start.
    pub(crate) fn last_full(&self, limit: &Limit) -> Option<Time> {
        match self {
            Tokens(tokens) => tokens.last_full(limit),
            Counted(_) => None,
        }
    }

    /// Turns promises whose time has come into what is spent.
    pub(crate) fn advance(&mut self, limit: &Limit, now: Time) {
        match self {
            Tokens(tokens) => tokens.advance(limit, now),
            Counted(counter) => counter.advance(limit, now),
        }
    }

    /// Takes `credit`. The level may fall below zero.
    pub(crate) fn debit(&mut self, limit: &Limit, now: Time, credit: Credit) {
        match self {
            Tokens(tokens) => tokens.debit(limit, now, credit),
            Counted(counter) => counter.debit(limit, now, credit),
        }
    }

    /// What could be spent at `now` if every promise were paid now.
    pub(crate) fn level(&self, limit: &Limit, now: Time) -> Credit {
        match self {
            Tokens(tokens) => tokens.level(limit, now),
            Counted(counter) => counter.level(limit, now),
        }
    }

    /// When it was empty, or can have been, to be as full as it is; where nothing refills, until when it may have been used.
    pub(crate) fn empty_at(&self, limit: &Limit, now: Time) -> Time {
        if limit.has_tokens() {
            return limit.empty_at(now, self.level_when_paid(limit, now));
        }
        self.last_promise().max(self.outlasting(limit, now)).unwrap_or(now).max(now)
    }

    /// The level that a successor is to know at `now`: everything promised is paid, and nothing else is granted until then.
    pub(crate) fn level_when_paid(&self, limit: &Limit, now: Time) -> Credit {
        let level = self.level(limit, now);
        self.last_promise().map_or(level, |last| level.min(-limit.rate().refill_within(last.since(now))))
    }

    /// What could be spent at `now` if every promise until `time` were paid now; of what fills at once and not bit by bit, the most
    /// that can be spent until then.
    pub(crate) fn level_until(&self, limit: &Limit, now: Time, time: Time) -> Credit {
        match self {
            Tokens(tokens) => tokens.level_until(limit, now, time),
            Counted(counter) => counter.most_until(limit, now, time),
        }
    }

    /// What is withheld for promises of a predecessor.
    pub(crate) fn withheld(&self) -> &Withheld {
        static NOTHING: Withheld = Withheld::none();
        match self {
            Tokens(tokens) => tokens.withheld(),
            Counted(_) => &NOTHING,
        }
    }

    /// When the next promise starts, if there is one.
    pub(crate) fn next_promise(&self) -> Option<Time> {
        match self {
            Tokens(tokens) => tokens.next_promise(),
            Counted(counter) => counter.promises().map(|(next, _)| next),
        }
    }

    /// When the last promise starts, or the last step of what is withheld ends.
    pub(crate) fn last_promise(&self) -> Option<Time> {
        match self {
            Tokens(tokens) => tokens.last_promise(),
            Counted(counter) => counter.promises().map(|(_, last)| last),
        }
    }

    /// Until when it may have been used, as far as that is longer than anybody who comes now can use it; where it counts something
    /// else than tokens.
    pub(crate) fn outlasting(&self, limit: &Limit, now: Time) -> Option<Time> {
        match self {
            Tokens(_) => None,
            Counted(counter) => counter.outlasting(limit, now),
        }
    }

    /// What a successor that counts all promises as spent has to withhold right after `time`.
    pub(crate) fn outstanding_after(&self, time: Time) -> Credit {
        match self {
            Tokens(tokens) => tokens.outstanding_after(time),
            Counted(_) => Credit::ZERO,
        }
    }

    /// When its level is above zero, seen from `now`.
    pub(crate) fn next_free(&self, limit: &Limit, now: Time) -> Time {
        self.paid_behind(limit, now, Credit::ZERO, Draw { cost: Credit::ZERO, tier: 0 })
    }

    /// When everything promised, `backlog` and `draw` have been paid.
    pub(crate) fn paid_behind(&self, limit: &Limit, now: Time, backlog: Credit, draw: Draw) -> Time {
        match self {
            Tokens(tokens) => tokens.paid_behind(limit, now, backlog, draw),
            Counted(counter) => counter.paid_behind(limit, now, backlog, draw),
        }
    }
}
