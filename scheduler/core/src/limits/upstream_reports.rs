//! The upstream's reports on a bucket that counts calls.

use super::expected_usage::ExpectedUsage;
use super::freeze::UNCONFIRMED;
use super::level_history::{LevelHistory, MAX_FEW, MAX_LEVELS};
use super::usage::{RecordTimes, ReportedUsage};
use super::window_phase::{Interval, Phase};
use crate::arithmetic::{Credit, Offset};
use crate::policy::Limit;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};

/// A bucket that seems too low rises by at most one part in this many of the nominal refill since
/// its last rise. In a bucket that counts calls, the claim falls by that amount.
pub(crate) const RAISE_PART: u64 = 20;

/// The report of one response on one bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketReading {
    /// The start of its call.
    pub(crate) at: Time,
    pub(crate) remaining: Credit,
    /// When all used stock is back, at the latest.
    pub(crate) resets: Option<Time>,
    /// When the window of the limit ends.
    pub(crate) ends: Option<Interval>,
}

/// The amount that other accounts or processes have used, as the last response told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) credit: Credit,
    /// Until when it counts.
    pub(crate) until: Time,
    /// When it is forgotten unless a response repeats it, if that is before the end.
    pub(crate) expires: Option<Time>,
}

impl Claim {
    /// The claim of a reading at `now`, which counts for a minute without another one. If the
    /// upstream's count begins again at `resets`, it counts until then only.
    pub(crate) fn new(now: Time, credit: Credit, until: Time, resets: Option<Time>) -> Self {
        let expires = resets.map_or(now + UNCONFIRMED, |resets| resets.min(now + UNCONFIRMED));
        Claim { credit, until, expires: Some(expires).filter(|expires| *expires < until) }
    }
}

/// The upstream's reports, and our own starts to compare them with.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamReports {
    pub(crate) claim: Option<Claim>,
    pub(crate) phase: Option<Phase>,
    /// The expected usage by other accounts.
    pub(crate) expected: ExpectedUsage,
    /// A value right after each start: in fixed windows the sum of all starts, otherwise the usage.
    starts: LevelHistory,
    started: Credit,
    /// When the claim was last lowered.
    lowered: Time,
}

impl UpstreamReports {
    pub(crate) fn new(now: Time) -> Self {
        UpstreamReports {
            claim: None,
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

    /// The phase that a predecessor knew. A successor learns what others use from the next answer.
    pub(crate) fn restored(limit: &Limit, now: Time, reported: ReportedUsage, times: RecordTimes) -> Self {
        let interval = |(from, until)| Interval { from: times.earliest(from), until: times.latest(until) };
        let phase = reported.window_ends.and_then(|ends| Phase::new(now, limit.spec().period, interval(ends)));
        UpstreamReports::of_phase(now, phase)
    }

    /// The record for a successor; none if nothing was reported of windows.
    pub(crate) fn recorded(&self, now: Time) -> Option<ReportedUsage> {
        let ends = self.phase.as_ref().map(Phase::cut)?;
        Some(ReportedUsage { window_ends: Some((Offset::between(now, ends.from), Offset::between(now, ends.until))) })
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

    /// The usage by other accounts that counts at `now`.
    pub(crate) fn claimed(&self, now: Time) -> Credit {
        self.claim.filter(|claim| claim.until > now).map_or(Credit::ZERO, |claim| claim.credit)
    }

    /// The claim that follows from a reading. More is believed at once; of less, only a small part of
    /// the refill since the last time, because calls on their way may not be counted yet.
    pub(crate) fn claim_after(&mut self, now: Time, limit: &Limit, read: Claim) -> Claim {
        let Some(claim) = self.claim.filter(|claim| claim.until > now && claim.credit >= read.credit) else {
            return read;
        };
        // A reading of less than half does not renew the claim, which may be a mistake.
        let is_renewed = read.credit.times(2) >= claim.credit;
        let expires = if is_renewed { read.expires.filter(|expires| *expires < claim.until) } else { claim.expires };
        let surplus = (claim.credit - read.credit - limit.rate().credit(Amount::ONE)).max(Credit::ZERO);
        if surplus == Credit::ZERO {
            return Claim { expires, ..claim };
        }
        let refill = limit.rate().refill_within(now.since(std::mem::replace(&mut self.lowered, now)));
        Claim { credit: claim.credit - surplus.min(refill.divided_by(RAISE_PART)), expires, ..claim }
    }

    /// The phase alone, if the period is the same. Claims stay in the bucket as anonymous usage.
    pub(crate) fn phase_alone(&self, now: Time, period: Span) -> Option<Self> {
        let phase = self.phase.filter(|phase| phase.period() == period)?;
        Some(UpstreamReports { phase: Some(phase), starts: self.starts.emptied(), ..UpstreamReports::new(now) })
    }
}
