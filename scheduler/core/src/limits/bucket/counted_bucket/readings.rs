//! How a bucket that counts calls learns from the upstream's responses.
//!
//! A response states what was left after its call was served. Usage beyond our own starts until
//! then is usage by others, and counts until its window ends. A lower remaining amount is
//! believed at once, a higher one only slowly.

use super::CountedBucket;
use crate::limits::freeze::Freeze;
use crate::limits::level_history::MAX_LEVELS;
use crate::limits::windows::{
    BucketReading, Claim, Interval, Phase, ReportEffect, UpstreamReports, WindowState, Windows,
};
use rampmeter_policy::Limit;
use rampmeter_policy::arithmetic::{Credit, StartCost};
use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::time::{Span, Time};
use std::borrow::Cow;

/// Claims end at multiples of one part in this many of a sliding window.
const ENDS_PART: u64 = 64;

impl CountedBucket {
    fn track(&mut self, now: Time) {
        self.reports.get_or_insert_with(|| Box::new(UpstreamReports::new(now, None)));
    }

    /// Remembers as many starts as the bucket of a limit without keys does.
    pub(crate) fn remember_levels(&mut self) {
        self.track(self.now);
        self.reports.iter_mut().for_each(|reports| reports.starts.most = MAX_LEVELS);
    }

    /// Learns usage by others and ends of windows from a response. Returns whether it is believed.
    pub(crate) fn learn(&mut self, limit: &Limit, now: Time, reading: &BucketReading) -> bool {
        self.advance(limit, now);
        self.track(now);
        let ends = reading.ends;
        let effect = ends.map_or(ReportEffect::Agrees, |ends| self.learn_phase(limit, now, ends));
        if let Some(until) = self.present_until(limit, now, reading) {
            self.learn_remaining(limit, now, reading, until);
            self.learn_usage_of_others(limit, now, reading);
        }
        effect != ReportEffect::Contradicts
    }

    /// Lowers the claim after the capacity fell by `by`, which had seemed to be usage by others.
    pub(crate) fn shrink(&mut self, limit: &Limit, now: Time, by: Credit) {
        self.advance(limit, now);
        if let Some(claim) = self.reports.as_ref().and_then(|reports| reports.claim) {
            let credit = (claim.credit - by.max(Credit::ZERO)).max(Credit::ZERO);
            self.replace_claim(limit, Some(Claim { credit, ..claim }));
        }
    }

    pub(crate) fn window_state(&self, limit: &Limit, now: Time) -> WindowState {
        let claimed = self.reports.as_ref().map_or(Credit::ZERO, |reports| reports.claimed(now));
        let known = WindowState { claimed, reported_end: self.reported_end(now), ..WindowState::default() };
        let Some(windows) = self.windows(limit) else { return known };
        let window = windows.window(now);
        WindowState {
            ends: Some(window.ends).filter(|ends| *ends < Time::NEVER),
            held_for_others: held_for_others(limit, windows, now),
            ..known
        }
    }

    fn phase(&self) -> Option<&Phase> {
        self.reports.as_ref()?.phase.as_ref()
    }

    fn reported_end(&self, now: Time) -> Option<Interval> {
        let phase = self.phase()?;
        let ends = phase.window(now).ends;
        Some(Interval { from: ends - phase.slack(), until: ends })
    }

    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.reports.as_ref()?.claim?.expires
    }

    /// Returns until when the usage in a response counts; `None` if it is about another window.
    fn present_until(&self, limit: &Limit, now: Time, reading: &BucketReading) -> Option<Time> {
        let Some(windows) = self.windows(limit) else {
            let part = (limit.spec().period.nanos() / ENDS_PART).max(1);
            let ends = |at: Time| Time::from_nanos(at.nanos().div_ceil(part).saturating_mul(part));
            let latest = self.counted_until(limit, now);
            return Some(reading.resets.map_or(latest, |resets| ends(resets).min(latest)));
        };
        let window = windows.window(now);
        let half = Span::from_nanos(window.length().nanos() / 2);
        let is_near = |stated: Interval| stated.from <= window.ends + half && window.ends <= stated.until + half;
        let is_present = window.contains(reading.at) && (self.phase().is_none() || reading.ends.is_none_or(is_near));
        is_present.then_some(window.ends)
    }

    fn learn_remaining(&mut self, limit: &Limit, now: Time, reading: &BucketReading, until: Time) {
        let others = upstream_full(limit) - reading.remaining - self.own_at(limit, now, reading.at);
        // If the upstream resets earlier, the claim is known only until then.
        let slack = self.windows(limit).map_or(Span::ZERO, Windows::slack);
        let resets = reading.resets.filter(|resets| *resets + slack < until);
        let read = Claim::new(now, others.max(Credit::ZERO), until, resets);
        let claim = self.reports.as_mut().map(|reports| reports.claim_after(now, limit, read));
        self.replace_claim(limit, claim);
    }

    pub(super) fn without_claim(&self, limit: &Limit) -> Cow<'_, CountedBucket> {
        let mut own = Cow::Borrowed(self);
        if self.reports.as_ref().is_some_and(|reports| reports.claim.is_some()) {
            own.to_mut().replace_claim(limit, None);
        }
        own
    }

    fn replace_claim(&mut self, limit: &Limit, claim: Option<Claim>) {
        let claim = claim.filter(|claim| claim.credit > Credit::ZERO);
        let Some(reports) = &mut self.reports else { return };
        let before = std::mem::replace(&mut reports.claim, claim);
        let now = self.now;
        if let Some(Claim { credit, until, .. }) = before.filter(|before| before.until > now) {
            let credit = credit.min(self.used_at(now).max(Credit::ZERO));
            self.add_usage(limit, now, until, -credit);
        }
        if let Some(Claim { credit, until, .. }) = claim {
            self.add_usage(limit, now, until, credit);
        }
    }

    /// Notes others' certain usage of the window, to expect it in the next ones. All our
    /// own starts until now may be part of the reported usage.
    fn learn_usage_of_others(&mut self, limit: &Limit, now: Time, reading: &BucketReading) {
        let Some(window) = self.windows(limit).map(|windows| windows.window(now)) else { return };
        let used = upstream_full(limit) - reading.remaining - self.own_at(limit, now, now);
        self.reports.iter_mut().for_each(|reports| reports.expected.note(window, used));
    }

    /// Returns the usage by our own starts until `at`, with anonymous usage.
    fn own_at(&self, limit: &Limit, now: Time, at: Time) -> Credit {
        let Some(reports) = &self.reports else { return Credit::ZERO };
        let used = self.used_at(now) - reports.claimed(now);
        match self.promised_in_window(limit, now) {
            Some(promised) => used - promised - reports.started_after(at),
            None => reports.starts.noted_at(at).unwrap_or(used),
        }
    }

    /// Learns that a window ends in `ends`: that of an answered call has begun, so within a period.
    fn learn_phase(&mut self, limit: &Limit, now: Time, ends: Interval) -> ReportEffect {
        let alignment = limit.alignment().filter(|alignment| alignment.is_periodic());
        let Some(alignment) = alignment else { return ReportEffect::Agrees };
        let period = limit.spec().period;
        let ends = Interval { until: ends.until.min(ends.from.max(now + period)), ..ends };
        let agrees = alignment.window(limit.wall_clock, ends.until).starts >= ends.from;
        let Some(reports) = &mut self.reports else { return ReportEffect::Agrees };
        let before = reports.phase;
        let effect = match &mut reports.phase {
            Some(phase) => phase.take_report(now, ends),
            None if agrees => ReportEffect::Agrees,
            phase @ None => {
                *phase = Phase::new(now, period, ends);
                if phase.is_some() { ReportEffect::CutsAnew } else { ReportEffect::Agrees }
            }
        };
        if effect == ReportEffect::CutsAnew {
            self.cut_anew(limit, now, before);
        }
        effect
    }

    /// Moves usage from the windows of the phase `former` to those of the present phase. Known
    /// starts count in the present window that contains them. Usage whose starts are forgotten
    /// counts until both its former and its present window have ended.
    fn cut_anew(&mut self, limit: &Limit, now: Time, former: Option<Phase>) {
        let Some(windows) = self.windows(limit) else { return };
        let (window, slack) = (windows.window(now), windows.slack());
        let Some(reports) = self.reports.clone() else { return };
        let mut before = self.clone();
        before.reports = Some(Box::new(UpstreamReports::new(now, former)));
        let former = before.windows(limit).map(|windows| (windows.window(now), windows.slack()));
        let Some((former, former_slack)) = former else { return };
        let mut anonymous = before.anonymous(limit, Span::ZERO);
        let placed = reports.started_since(former.starts) + reports.claimed(now);
        anonymous.add_usage(limit, now, former.ends, -placed.min(anonymous.used_at(now)));
        let recent = reports.started_since(window.starts - slack - LATENESS);
        let claimed = reports.claimed(now);
        let mut anew = CountedBucket::from_blocks(limit, now, &anonymous.blocks(limit, None), Some(reports));
        for (key, call) in &self.calls {
            let until = anew.end_of_call(limit, key.at);
            anew.commit_until(limit, *key, StartCost { credit: call.cost, tier: call.tier }, until);
        }
        anew.add_usage(limit, now, window.ends, recent);
        // Claims on another window are dropped, as responses report them again.
        let is_same = window.ends <= former.ends && former.ends <= window.ends + former_slack;
        if let Some(reports) = &mut anew.reports {
            reports.claim = reports.claim.filter(|_| is_same).map(|claim| Claim { until: window.ends, ..claim });
        }
        anew.add_usage(limit, now, window.ends, if is_same { claimed } else { Credit::ZERO });
        *self = CountedBucket { freeze: self.freeze, ..anew };
    }

    /// Forgets a claim that has ended. If it has expired, a probe call asks the upstream again
    /// before other calls follow.
    pub(super) fn expire(&mut self, limit: &Limit) {
        let now = self.now;
        let Some(claim) = self.reports.as_ref().and_then(|reports| reports.claim) else { return };
        if claim.expires.unwrap_or(claim.until) <= now {
            self.replace_claim(limit, None);
            if claim.until > now {
                self.freeze = Some(Freeze::join(self.freeze, Freeze::new(now, now, None)));
            }
        }
    }

    pub(super) fn note_start(&mut self, limit: &Limit, at: Time, cost: Credit) {
        match &mut self.reports {
            Some(reports) if limit.alignment().is_some() => reports.note_start(at, cost),
            Some(_) => self.note_used(limit, at),
            None => {}
        }
    }

    /// Notes what is used of a sliding window after a change at `at`.
    pub(super) fn note_used(&mut self, limit: &Limit, at: Time) {
        if let Some(reports) = self.reports.as_mut().filter(|_| limit.alignment().is_none()) {
            let claimed = reports.claimed(at);
            reports.starts.note(at, self.total - claimed);
        }
    }
}

fn upstream_full(limit: &Limit) -> Credit {
    limit.full() + limit.rate().credit(limit.margin())
}

/// Returns the stock of the window that is held back for others, ever less towards its end.
fn held_for_others(limit: &Limit, windows: Windows<'_>, now: Time) -> Credit {
    const PARTS: u64 = 1024;
    let window = windows.window(now);
    let left = u128::from(window.ends.since(now).nanos()) * u128::from(PARTS);
    let left = left / u128::from(window.length().nanos().max(1));
    windows.held_back(limit, window).divided_by(PARTS).times(u64::try_from(left).unwrap_or(PARTS).min(PARTS))
}
