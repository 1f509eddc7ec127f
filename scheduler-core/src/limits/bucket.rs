//! The state of a limit for one key, however the limit counts.

use super::counted_bucket::CountedBucket;
use super::freeze::Freeze;
use super::pending_debits::PendingDebits;
use super::timeline::StartKey;
use super::token_bucket::TokenBucket;
use super::usage::{Usage, UsageBlock};
use crate::arithmetic::{Credit, Draw};
use crate::policy::Limit;
use rampmeter_protocol::time::Time;

/// A bucket of tokens, or what calls hold of a limit that counts them.
///
/// Guarantees that no committed start finds less than it costs, whatever is committed later: a newcomer is put where every start
/// behind it can still pay. Only what tells of something that is gone already can break a promise.
#[derive(Clone, Debug)]
pub(crate) enum Bucket {
    Tokens(TokenBucket),
    Counted(Box<CountedBucket>),
}
use Bucket::{Counted, Tokens};

/// What both kinds say or do in the same words.
macro_rules! for_both {
    ($bucket:expr, $kind:ident => $said:expr) => {
        match $bucket {
            Tokens($kind) => $said,
            Counted($kind) => $said,
        }
    };
}

impl Bucket {
    /// A bucket with `level` at `now`. What it was before is unknown.
    pub(crate) fn new(limit: &Limit, now: Time, level: Credit) -> Self {
        Bucket::withholding(limit, now, level, PendingDebits::none())
    }

    /// A bucket that its predecessor may have promised this much of.
    pub(crate) fn withholding(limit: &Limit, now: Time, level: Credit, pending_debits: PendingDebits) -> Self {
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

    /// A bucket of which its predecessor has told; none where the limit's buckets hold tokens.
    pub(crate) fn counted(limit: &Limit, then: Time, taken: &Usage) -> Option<Self> {
        (!limit.has_tokens()).then(|| Counted(Box::new(CountedBucket::of(limit, then, taken))))
    }

    /// The same, which remembers where its level has been, for what the upstream says of that.
    pub(crate) fn tracked(mut self) -> Self {
        if let Tokens(tokens) = &mut self {
            tokens.track();
        }
        self
    }

    fn tokens(&self) -> Option<&TokenBucket> {
        match self {
            Tokens(tokens) => Some(tokens),
            Counted(_) => None,
        }
    }

    fn as_counted(&self) -> Option<&CountedBucket> {
        match self {
            Tokens(_) => None,
            Counted(counted) => Some(counted),
        }
    }

    /// What a successor has to know of one without tokens: what is taken, what else may be granted, and that calls may be renewed
    /// until `renewed`.
    pub(crate) fn taken(&self, limit: &Limit, now: Time, unknown: &[UsageBlock], renewed: Time) -> Option<Usage> {
        Some(self.as_counted()?.taken(limit, now, unknown, renewed))
    }

    /// Whether it is as a new one that is full.
    pub(crate) fn is_as_new(&self, limit: &Limit, now: Time) -> bool {
        self.freeze().is_none() && self.is_unused(limit, now)
    }

    fn is_unused(&self, limit: &Limit, now: Time) -> bool {
        for_both!(self, kind => kind.is_unused(limit, now))
    }

    /// Does without what nobody asks for: a freeze, if nobody has come since that ended.
    pub(crate) fn shed(&mut self, limit: &Limit, now: Time) {
        if self.is_unused(limit, now) {
            self.thaw_if(|freeze| freeze.is_forgotten(now));
        }
        if let Tokens(tokens) = self {
            tokens.shed();
        }
    }

    /// The earliest time from `from` on at which `draw` can be committed. The bucket must be
    /// [advanced](Bucket::advance) to now, and `from` must not lie before now.
    pub(crate) fn earliest(&self, limit: &Limit, from: Time, draw: Draw) -> Time {
        let from = from.max(self.freeze().map_or(Time::ORIGIN, |freeze| freeze.opens()));
        for_both!(self, kind => kind.earliest(limit, from, draw))
    }

    /// Commits a start at a time that [`Bucket::earliest`] found.
    pub(crate) fn commit(&mut self, limit: &Limit, now: Time, key: StartKey, draw: Draw) {
        self.if_frozen(|freeze| freeze.note_start(key));
        for_both!(self, kind => kind.commit(limit, now, key, draw));
    }

    /// Commits a start that the bucket has paid for already, and holds until `end` if that is known.
    pub(crate) fn promise_again(&mut self, limit: &Limit, now: Time, key: StartKey, draw: Draw, end: Option<Time>) {
        match self {
            Tokens(tokens) => tokens.promise_again(limit, now, key, draw),
            Counted(counted) => counted.promise_again(limit, key, draw, end),
        }
    }

    /// Until when the call of `key` holds what it takes, unless it is settled or renewed before.
    pub(crate) fn lease(&self, key: StartKey) -> Option<Time> {
        self.as_counted()?.lease(key)
    }

    /// Takes a promised start back; false if it is past or unknown.
    pub(crate) fn withdraw(&mut self, limit: &Limit, key: StartKey) -> bool {
        self.if_frozen(|freeze| freeze.note_return(key));
        for_both!(self, kind => kind.withdraw(limit, key))
    }

    /// Learns that the call of `key` took `actual`, where it was charged something else; or that it was never made.
    pub(crate) fn correct(
        &mut self,
        limit: &Limit,
        now: Time,
        key: StartKey,
        (charged, actual): (Credit, Credit),
        made: bool,
    ) {
        if !made {
            // If it was to probe a freeze, another call has to.
            self.if_frozen(|freeze| freeze.note_return(key));
        }
        for_both!(self, kind => kind.correct(limit, now, key, (charged, actual)));
    }

    /// The call of `key` is still in flight. Whether there was room for it to be.
    pub(crate) fn renew(&mut self, limit: &Limit, now: Time, key: StartKey, draw: Draw) -> bool {
        match self {
            Tokens(_) => true,
            Counted(counted) => counted.renew(limit, now, key, draw),
        }
    }

    /// The freeze, if there is one whose probe is not known to be served.
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

    /// Nobody starts before `until`, and then one alone.
    pub(crate) fn freeze_until(&mut self, until: Time) {
        let later = self.freeze().map_or(until, |freeze| freeze.until().max(until));
        self.set_freeze(Some(Freeze::new(later)));
    }

    /// Ends the freeze whose probe `key` is.
    pub(crate) fn thaw(&mut self, key: StartKey) {
        self.thaw_if(|freeze| freeze.is_probed_by(key));
    }

    /// Whether starts in this time are promised.
    pub(crate) fn promises_between(&self, from: Time, until: Time) -> bool {
        for_both!(self, kind => kind.promises_between(from, until))
    }

    /// Goes on under a limit that differs in its rate or in what a full bucket holds. Of what counts something else than tokens
    /// nothing like that is learned.
    pub(crate) fn adopt(&mut self, now: Time, from: &Limit, to: &Limit) {
        if let Tokens(tokens) = self {
            tokens.adopt(now, from, to);
        }
    }

    /// Goes on under a limit whose windows may be cut by another clock.
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

    /// The level right behind what started until `time`, as far as that is remembered.
    pub(crate) fn level_after(&self, limit: &Limit, time: Time) -> Option<Credit> {
        self.tokens()?.level_after(limit, time)
    }

    /// Learns that the level has been off by this much since then.
    pub(crate) fn shift_from(&mut self, limit: &Limit, now: Time, since: Time, by: Credit) {
        if let Tokens(tokens) = self {
            tokens.shift_from(limit, now, since, by);
        }
    }

    /// Learns that the level has been off by this much all along.
    pub(crate) fn shift(&mut self, limit: &Limit, now: Time, by: Credit) {
        self.shift_from(limit, now, Time::ORIGIN, by);
    }

    /// When the bucket was last full right before a start.
    pub(crate) fn last_full(&self, limit: &Limit) -> Option<Time> {
        self.tokens()?.last_full(limit)
    }

    /// Turns promises whose time has come into what is spent.
    pub(crate) fn advance(&mut self, limit: &Limit, now: Time) {
        for_both!(self, kind => kind.advance(limit, now));
        self.thaw_if(|freeze| freeze.is_over(now));
    }

    /// Takes everything that is in stock. Of windows that is what this one has, whatever is promised in later ones.
    pub(crate) fn drain(&mut self, limit: &Limit, now: Time) {
        let level = if limit.has_tokens() { self.level(limit, now) } else { self.level_until(limit, now, now) };
        self.debit(limit, now, level.max(Credit::ZERO));
    }

    /// Takes `credit`. The level may fall below zero.
    pub(crate) fn debit(&mut self, limit: &Limit, now: Time, credit: Credit) {
        for_both!(self, kind => kind.debit(limit, now, credit));
    }

    /// What could be spent at `now` if every promise were paid now.
    pub(crate) fn level(&self, limit: &Limit, now: Time) -> Credit {
        for_both!(self, kind => kind.level(limit, now))
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
        for_both!(self, kind => kind.level_until(limit, now, time))
    }

    /// What could be spent now if nothing were held for the starts of `held`.
    pub(crate) fn level_without(&self, limit: &Limit, now: Time, held: impl Iterator<Item = StartKey>) -> Credit {
        let held = self.as_counted().map_or(Credit::ZERO, |counted| counted.held_now_by(limit, now, held));
        self.level_until(limit, now, now) + held
    }

    /// What is withheld for promises of a predecessor.
    pub(crate) fn pending_debits(&self) -> &PendingDebits {
        static NOTHING: PendingDebits = PendingDebits::none();
        self.tokens().map_or(&NOTHING, TokenBucket::pending_debits)
    }

    /// When the next promise starts, if there is one.
    pub(crate) fn next_promise(&self) -> Option<Time> {
        for_both!(self, kind => kind.next_promise())
    }

    /// When the last promise starts, or the last step of what is withheld ends.
    pub(crate) fn last_promise(&self) -> Option<Time> {
        for_both!(self, kind => kind.last_promise())
    }

    /// Until when it may have been used, as far as that is longer than anybody who comes now can use it; where it counts something
    /// else than tokens.
    pub(crate) fn outlasting(&self, limit: &Limit, now: Time) -> Option<Time> {
        self.as_counted()?.outlasting(limit, now)
    }

    /// What a successor that counts all promises as spent has to withhold right after `time`.
    pub(crate) fn outstanding_after(&self, time: Time) -> Credit {
        self.tokens().map_or(Credit::ZERO, |tokens| tokens.outstanding_after(time))
    }

    /// When its level is above zero, seen from `now`.
    pub(crate) fn next_free(&self, limit: &Limit, now: Time) -> Time {
        self.paid_behind(limit, now, Credit::ZERO, Draw { cost: Credit::ZERO, tier: 0 })
    }

    /// When everything promised, `backlog` and `draw` have been paid.
    pub(crate) fn paid_behind(&self, limit: &Limit, now: Time, backlog: Credit, draw: Draw) -> Time {
        for_both!(self, kind => kind.paid_behind(limit, now, backlog, draw))
    }
}
