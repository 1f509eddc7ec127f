//! The upstream's reports on a bucket that counts calls.

use super::claims::Claims;
use super::expected_usage::ExpectedUsage;
use super::level_history::{LevelHistory, MAX_FEW, MAX_LEVELS};
use super::usage::{ClaimedUsage, RecordTimes, ReportedUsage};
use super::window_phase::{Interval, Phase};
use crate::arithmetic::{Credit, Offset, Rate};
use crate::ids::Connection;
use crate::policy::Limit;
use rampmeter_protocol::time::{Span, Time};

/// A bucket that seems too low rises by at most one part in this many of the nominal refill since
/// its last rise. In a bucket that counts calls, claims fall by that amount.
pub(crate) const RAISE_PART: u64 = 20;

/// The upstream's reports, and our own starts to compare them with.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamReports {
    pub(crate) claims: Claims,
    pub(crate) phase: Option<Phase>,
    /// The expected usage by other accounts.
    pub(crate) expected: ExpectedUsage,
    /// A value right after each start: in fixed windows the sum of all starts, otherwise the usage.
    starts: LevelHistory,
    started: Credit,
    /// When claims were last lowered.
    lowered: Time,
}

impl UpstreamReports {
    pub(crate) fn new(now: Time) -> Self {
        UpstreamReports {
            claims: Claims::default(),
            phase: None,
            expected: ExpectedUsage::default(),
            starts: LevelHistory::of(MAX_FEW),
            started: Credit::ZERO,
            lowered: now,
        }
    }

    /// A phase and nothing else.
    pub(crate) fn of_phase(now: Time, phase: Option<Phase>) -> Self {
        UpstreamReports { phase, ..UpstreamReports::new(now) }
    }

    /// The reports that a predecessor had.
    pub(crate) fn restored(limit: &Limit, now: Time, reported: &ReportedUsage, times: RecordTimes) -> Self {
        let credit = |micros| limit.rate().credit_of_micros(i128::from(micros));
        let at = |offset| times.latest(offset);
        let claim = |claim: &ClaimedUsage| (credit(claim.micros), at(claim.until), claim.expires.map(at));
        let ends = reported.window_ends.map(|(from, until)| Interval { from: times.earliest(from), until: at(until) });
        let phase = |ends| Phase::new(now, limit.spec().period, ends, Connection::UNKNOWN);
        UpstreamReports {
            claims: Claims::restored(reported.claims.iter().map(claim)),
            phase: ends.and_then(phase),
            expected: ExpectedUsage::restored(credit(reported.expected_micros)),
            ..UpstreamReports::new(now)
        }
    }

    /// The record for a successor; none if nothing was reported.
    pub(crate) fn usage(&self, rate: &Rate, now: Time) -> Option<ReportedUsage> {
        let claims = self.claims.iter().filter(|claim| claim.until > now).map(|claim| ClaimedUsage {
            micros: rate.micros_up(claim.credit),
            until: Offset::between(now, claim.until),
            expires: claim.expires().map(|expires| Offset::between(now, expires)),
        });
        let ends = self.phase.as_ref().map(Phase::cut);
        let window_ends = ends.map(|ends| (Offset::between(now, ends.from), Offset::between(now, ends.until)));
        let expected_micros = rate.micros_up(self.expected.expected());
        let reported = ReportedUsage { window_ends, claims: claims.collect(), expected_micros };
        (reported != ReportedUsage::default()).then_some(reported)
    }

    /// Notes the cost of a start in a fixed window.
    pub(crate) fn note_start(&mut self, at: Time, cost: Credit) {
        self.started += cost;
        self.starts.note(at, self.started);
    }

    /// Notes our own usage of a sliding window from `at` on.
    pub(crate) fn note_used(&mut self, at: Time, used: Credit) {
        self.starts.note(at, used);
    }

    /// Remembers many starts from now on.
    pub(crate) fn remember_more(&mut self) {
        self.starts.remember(MAX_LEVELS);
    }

    /// Notes that a call which started at `at` has cost `more` than it was charged.
    pub(crate) fn note_correction(&mut self, at: Time, more: Credit) {
        self.started += more;
        self.starts.shift_from(at, more);
    }

    /// The cost of all known starts after `time`.
    pub(crate) fn started_after(&self, time: Time) -> Credit {
        self.started - self.starts.noted_at(time).unwrap_or(Credit::ZERO)
    }

    /// The cost of all known starts from `time` on.
    pub(crate) fn started_since(&self, time: Time) -> Credit {
        self.started - self.starts.noted_before(time).unwrap_or(Credit::ZERO)
    }

    /// The usage right after the starts until `time`; none if that is forgotten.
    pub(crate) fn used_at(&self, time: Time) -> Option<Credit> {
        self.starts.noted_at(time)
    }

    /// Takes the amount by which claims may fall: a small part of the refill since the last time.
    pub(crate) fn take_lowering(&mut self, now: Time, limit: &Limit) -> Credit {
        let refill = limit.rate().refill_within(now.since(self.lowered));
        self.lowered = now;
        refill.divided_by(RAISE_PART)
    }

    /// The phase alone, if the period is the same. Claims stay in the bucket as anonymous usage.
    pub(crate) fn phase_alone(&self, now: Time, period: Span) -> Option<Self> {
        let phase = self.phase.filter(|phase| phase.period() == period)?;
        Some(UpstreamReports { phase: Some(phase), starts: self.starts.emptied(), ..UpstreamReports::new(now) })
    }
}
