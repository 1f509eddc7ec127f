//! What answers of the upstream change.
//!
//! An answer tells what was left when the upstream had served its call. What is missing there,
//! beyond our own starts until then, was used by others. It counts as long as the window does. A
//! lower rest is believed at once, a higher one as it is for token buckets.

use super::{CountedBucket, is_windowed};
use crate::arithmetic::{Credit, StartCost};
use crate::ids::Asker;
use crate::limits::claims::Statement;
use crate::limits::freeze::Freeze;
use crate::limits::told::Told;
use crate::limits::window_phase::{Heard, Interval, Phase};
use crate::policy::Limit;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::time::{Span, Time};

/// Others are said to use less at one part in this many of the nominal rate.
const RAISE_PART: u64 = 20;
/// Usage by others ends at multiples of one part in this many of a sliding window.
const ENDS_PART: u64 = 64;

impl CountedBucket {
    /// Remembers starts from `now` on, to compare them with what is told.
    pub(crate) fn track(&mut self, now: Time) {
        self.told.get_or_insert_with(|| Box::new(Told::new(now)));
    }

    /// The same for a bucket without a key, of which more starts are remembered.
    pub(crate) fn track_shared(&mut self) {
        self.track(self.now);
        self.told.iter_mut().for_each(|told| told.remember_more());
    }

    /// Learns from an answer, which came at `now`, what others use and when windows end. Returns
    /// whether it is believed.
    pub(crate) fn learn(&mut self, limit: &Limit, now: Time, statement: &Statement) -> bool {
        self.advance(limit, now);
        self.track(now);
        let ends = statement.ends;
        let heard = ends.map_or(Heard::Agrees, |ends| self.learn_phase(limit, now, ends, statement.asker));
        if let Some(until) = self.present_until(limit, now, statement) {
            self.learn_remaining(limit, now, statement, until);
            self.learn_usage_of_others(limit, now, statement);
        }
        heard != Heard::Contradicts
    }

    /// Continues with so much less in a window: others seemed to have used it.
    pub(crate) fn shrink(&mut self, limit: &Limit, now: Time, by: Credit) {
        self.advance(limit, now);
        let lowered = self.told.as_mut().map(|told| told.claims.lower(by.max(Credit::ZERO)));
        lowered.into_iter().flatten().for_each(|(until, credit)| self.release(limit, until, credit));
    }

    /// How much others have used of what counts at `now`.
    pub(crate) fn claimed(&self, now: Time) -> Credit {
        self.told.as_ref().map_or(Credit::ZERO, |told| told.claims.total(now))
    }

    /// When a window of the upstream ends, if it has told.
    pub(crate) fn phase(&self) -> Option<&Phase> {
        self.told.as_ref()?.phase.as_ref()
    }

    /// When usage lapses that only one client has told of.
    pub(crate) fn next_lapse(&self) -> Option<Time> {
        self.told.as_ref()?.claims.next_lapse()
    }

    /// Until when usage counts that the answer tells of; none if it is of another window.
    fn present_until(&self, limit: &Limit, now: Time, statement: &Statement) -> Option<Time> {
        let Some(windows) = self.windows(limit) else {
            let part = (limit.spec().period.nanos() / ENDS_PART).max(1);
            let ends = |at: Time| Time::from_nanos(at.nanos().div_ceil(part).saturating_mul(part));
            let latest = self.counted_until(limit, now);
            return Some(statement.resets.map_or(latest, |resets| ends(resets).min(latest)));
        };
        let window = windows.window(now);
        let half = Span::from_nanos(window.length().nanos() / 2);
        let is_near = |told: Interval| told.from <= window.ends + half && window.ends <= told.until + half;
        let is_present =
            window.contains(statement.at) && (self.phase().is_none() || statement.ends.is_none_or(is_near));
        is_present.then_some(window.ends)
    }

    fn learn_remaining(&mut self, limit: &Limit, now: Time, statement: &Statement, until: Time) {
        let foreign = upstream_full(limit) - statement.remaining - self.own_at(limit, now, statement.at);
        let Some(told) = &mut self.told else { return };
        let claimed = told.claims.total(now);
        told.claims.repeat(now, statement.asker, foreign);
        let most = foreign.max(Credit::ZERO) + limit.rate().credit(Amount::ONE);
        let surplus = (claimed - most).max(Credit::ZERO);
        if foreign > claimed {
            // Of a window that the upstream resets earlier, no more than this is known.
            let resets = statement.resets.filter(|resets| *resets < until);
            let until = told.claims.add(now, statement.asker, foreign - claimed, (until, resets));
            self.hold(limit, now, until, foreign - claimed);
        } else if surplus > Credit::ZERO {
            let lowered = surplus.min(told.may_lower(now, limit, RAISE_PART));
            let lowered = told.claims.lower(lowered);
            lowered.into_iter().for_each(|(until, credit)| self.release(limit, until, credit));
        }
    }

    /// Notes what others have certainly used of the window, for the next ones. All our own starts
    /// until now may have been counted.
    fn learn_usage_of_others(&mut self, limit: &Limit, now: Time, statement: &Statement) {
        let Some(window) = self.windows(limit).map(|windows| windows.window(now)) else { return };
        let used = upstream_full(limit) - statement.remaining - self.own_at(limit, now, now);
        self.told.iter_mut().for_each(|told| told.expected.note(window, used));
    }

    /// What our own starts until `at` hold, and anonymous usage.
    fn own_at(&self, limit: &Limit, now: Time, at: Time) -> Credit {
        let Some(told) = &self.told else { return Credit::ZERO };
        let held = self.held_at(now) - told.claims.total(now);
        match self.promised_in_window(limit, now) {
            Some(promised) => held - promised - told.started_after(at),
            None => told.held_at(at).unwrap_or(held),
        }
    }

    /// Learns that a window ends within `ends`.
    fn learn_phase(&mut self, limit: &Limit, now: Time, ends: Interval, asker: Asker) -> Heard {
        let alignment = limit.counting().alignment().filter(|alignment| alignment.is_periodic());
        let Some(alignment) = alignment else { return Heard::Agrees };
        let agrees = alignment.window(ends.until).starts >= ends.from;
        let period = limit.spec().period;
        let Some(told) = &mut self.told else { return Heard::Agrees };
        let before = told.phase;
        let heard = match &mut told.phase {
            Some(phase) => phase.hear(now, ends, asker),
            None if agrees => Heard::Agrees,
            phase @ None => {
                *phase = Phase::new(now, period, ends, asker);
                if phase.is_some() { Heard::CutsAnew } else { Heard::Agrees }
            }
        };
        if heard == Heard::CutsAnew {
            self.cut_anew(limit, now, before);
        }
        heard
    }

    /// Counts usage in the windows of the present phase, no longer in those of `former`. Each start
    /// counts in the window in which it is. Usage whose starts are forgotten counts until both the
    /// former and the present window of it have ended.
    fn cut_anew(&mut self, limit: &Limit, now: Time, former: Option<Phase>) {
        let Some(windows) = self.windows(limit) else { return };
        let (window, slack) = (windows.window(now), windows.slack());
        let Some(told) = self.told.clone() else { return };
        let mut before = self.clone();
        before.told = Some(Box::new(Told::of_phase(now, former)));
        let former = before.windows(limit).map(|windows| (windows.window(now), windows.slack()));
        let Some((former, former_slack)) = former else { return };
        let mut anonymous = before.anonymous(limit, Span::ZERO);
        let placed = told.started_since(former.starts) + told.claims.total(now);
        anonymous.hold(limit, now, former.ends, -placed.min(anonymous.held_at(now)));
        let recent = told.started_since(window.starts - slack - LATENESS);
        let claimed = told.claims.total(now);
        let mut anew = CountedBucket::from_blocks(limit, now, &anonymous.blocks(limit, None), Some(told));
        for (key, holding) in &self.calls {
            let until = anew.counted_until(limit, key.at);
            anew.commit_until(limit, *key, StartCost { credit: holding.cost, tier: holding.tier }, until);
        }
        anew.hold(limit, now, window.ends, recent);
        // Of another window, what others have used is told anew.
        let is_same = window.ends <= former.ends && former.ends <= window.ends + former_slack;
        let kept = anew.told.as_mut().is_some_and(|told| told.claims.end_at(window.ends, is_same));
        anew.hold(limit, now, window.ends, if kept { claimed } else { Credit::ZERO });
        *self = CountedBucket { freeze: self.freeze, ..anew };
    }

    /// Forgets what only one client has told of, if no answer has repeated it. A probe call asks
    /// the upstream again before others follow.
    pub(super) fn lapse(&mut self, limit: &Limit) {
        let now = self.now;
        let Some(told) = self.told.as_mut().filter(|told| told.claims.iter().next().is_some()) else { return };
        let lapsed = told.claims.lapse(now);
        if !lapsed.is_empty() {
            self.freeze = Some(self.freeze.map_or(Freeze::new(now), |freeze| freeze.lasting_until(now)));
        }
        lapsed.into_iter().for_each(|(until, credit)| self.release(limit, until, credit));
    }

    fn release(&mut self, limit: &Limit, until: Time, credit: Credit) {
        let credit = credit.min(self.held_at(self.now).max(Credit::ZERO));
        self.hold(limit, self.now, until, -credit);
    }

    pub(super) fn note_start(&mut self, limit: &Limit, at: Time, cost: Credit) {
        match &mut self.told {
            Some(told) if is_windowed(limit) => told.note_start(at, cost),
            Some(_) => self.note_held(limit, at),
            None => {}
        }
    }

    /// Notes what is held of a sliding window after a change at `at`.
    pub(super) fn note_held(&mut self, limit: &Limit, at: Time) {
        if let Some(told) = self.told.as_mut().filter(|_| !is_windowed(limit)) {
            let claimed = told.claims.total(at);
            told.note_held(at, self.total - claimed);
        }
    }
}

/// The capacity, as the upstream counts it.
fn upstream_full(limit: &Limit) -> Credit {
    limit.full() + limit.rate().credit(limit.margin())
}
