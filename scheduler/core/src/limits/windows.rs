//! Fixed windows: when they end by the upstream's reports, and where in them calls may start.
//!
//! A response states how soon its window ends, often in whole seconds. It was written between the
//! call's start and its arrival here, so it gives an interval in which a window ends. Responses
//! that agree narrow the interval down. Starts avoid it, as a call there could count in either of
//! two windows.
//!
//! Under load, permits use a window up as soon as it begins. If others use the window
//! afterwards, calls on their way are rejected. So as much as others used of the last
//! windows is held back, and ever less of it towards the window's end.

use crate::limits::freeze::UNCONFIRMED;
use crate::limits::level_history::{LevelHistory, MAX_FEW};
use crate::limits::usage::{RecordTimes, ReportedUsage};
use crate::offset::Offset;
use rampmeter_policy::Limit;
use rampmeter_policy::arithmetic::{Credit, StartCost, Window, WindowAlignment};
use rampmeter_policy::spec::Learn;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;

/// An interval longer than one part in this many of the window says too little.
const VAGUE_PART: u64 = 4;
const CONSISTENT: u32 = 3;

/// The bounds of a time that is not known exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) from: Time,
    pub(crate) until: Time,
}

impl Interval {
    pub(crate) fn length(self) -> Span {
        self.until.since(self.from)
    }

    fn common(self, other: Interval) -> Option<Interval> {
        let both = Interval { from: self.from.max(other.from), until: self.until.min(other.until) };
        (both.from <= both.until).then_some(both)
    }

    /// Returns this interval, moved by periods towards `other`, but not before the origin of time.
    fn nearest_to(self, other: Interval, period: Span) -> Interval {
        let (period, half) = (i128::from(period.nanos()), i128::from(period.nanos() / 2));
        let until = i128::from(self.until.nanos());
        let back = (until - i128::from(other.until.nanos()) + half).min(until).div_euclid(period) * period;
        let moved =
            |time: Time| Time::from_nanos((i128::from(time.nanos()) - back).clamp(0, i128::from(u64::MAX)) as u64);
        Interval { from: moved(self.from), until: moved(self.until) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportEffect {
    Agrees,
    CutsAnew,
    Contradicts,
}

/// The ends of windows, as far as responses show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    period: Span,
    /// The interval in which a window ends, by all responses.
    known: Interval,
    /// The interval that cuts windows: it follows `known` only if that is much shorter.
    cut: Interval,
    moved: Time,
    /// The last of several agreeing reports in a row that contradict `known`, and their number.
    contradicted: Option<(Interval, u32)>,
}

impl Phase {
    /// Creates a phase from one response; `None` if it says too little.
    pub(crate) fn new(now: Time, period: Span, ends: Interval) -> Option<Self> {
        let says_enough = ends.length().nanos() <= period.nanos() / VAGUE_PART;
        says_enough.then_some(Phase { period, known: ends, cut: ends, moved: now, contradicted: None })
    }

    /// Handles a report that a window ends in `reported`. Windows move, once in a period, after
    /// [`CONSISTENT`] reports in a row that agree with each other and contradict what is known.
    pub(crate) fn take_report(&mut self, now: Time, reported: Interval) -> ReportEffect {
        let ends = reported.nearest_to(self.known, self.period);
        if let Some(known) = self.known.common(ends) {
            (self.known, self.contradicted) = (known, None);
            let is_much_shorter = known.length().nanos() <= self.cut.length().nanos() / 2;
            if is_much_shorter {
                self.cut = known;
            }
            return if is_much_shorter { ReportEffect::CutsAnew } else { ReportEffect::Agrees };
        }
        let Some(other) = Phase::new(now, self.period, reported) else { return ReportEffect::Contradicts };
        let agreeing = self.contradicted.filter(|(earlier, _)| earlier.common(ends).is_some());
        let reports = agreeing.map_or(1, |(_, reports)| reports + 1);
        self.contradicted = Some((ends, reports));
        if reports >= CONSISTENT && now >= self.moved + self.period {
            *self = other;
            return ReportEffect::CutsAnew;
        }
        ReportEffect::Contradicts
    }

    /// Returns the window of `time`. It ends when the upstream's window has certainly ended.
    pub(crate) fn window(&self, time: Time) -> Window {
        let (period, end) = (i128::from(self.period.nanos()), i128::from(self.cut.until.nanos()));
        let windows = (i128::from(time.nanos()) - end).div_euclid(period) + 1;
        let at = |nanos: i128| Time::from_nanos(nanos.clamp(0, i128::from(u64::MAX)) as u64);
        let ends = end + windows * period;
        Window { starts: at(ends - period), ends: at(ends) }
    }

    /// Returns how long before the end of a window the upstream's window may have ended.
    pub(crate) fn slack(&self) -> Span {
        self.cut.length()
    }
}

/// How time is cut into windows: as configured, or as the upstream reports.
#[derive(Clone, Copy)]
pub(crate) struct Windows<'a> {
    alignment: &'a WindowAlignment,
    wall_clock: WallClockOrigin,
    phase: Option<&'a Phase>,
    others: Option<&'a ExpectedUsage>,
}

impl<'a> Windows<'a> {
    pub(crate) fn of(limit: &'a Limit, phase: Option<&'a Phase>, others: Option<&'a ExpectedUsage>) -> Option<Self> {
        let (alignment, wall_clock) = (limit.alignment()?, limit.wall_clock);
        Some(Windows { alignment, wall_clock, phase: phase.filter(|_| alignment.is_periodic()), others })
    }

    /// Returns the stock of `window` that is held back for others when it begins.
    pub(crate) fn held_back(self, limit: &Limit, window: Window) -> Credit {
        self.others.map_or(Credit::ZERO, |others| others.of(window).min(most_expected(limit)))
    }

    pub(crate) fn window(self, time: Time) -> Window {
        self.phase.map_or_else(|| self.alignment.window(self.wall_clock, time), |phase| phase.window(time))
    }

    /// Returns the first and the last time at which calls may start in `window`.
    pub(crate) fn starts_in(self, window: Window) -> (Time, Time) {
        let WindowAlignment { guard, reported_guard, .. } = *self.alignment;
        let guard = if self.phase.is_some() { reported_guard } else { guard };
        (window.starts + guard, window.ends - guard - self.slack())
    }

    pub(crate) fn slack(self) -> Span {
        self.phase.map_or(Span::ZERO, Phase::slack)
    }
}

/// Returns the first start from `from` on in its window, whose usage is `used`, or else the
/// window's end. The headroom and the stock held back for others shrink to nothing towards
/// the end, because capacity left there is lost.
pub(super) fn start_in_window(
    limit: &Limit,
    windows: Windows<'_>,
    used: Credit,
    from: Time,
    cost: StartCost,
) -> Result<Time, Time> {
    let window = windows.window(from);
    let (first, last) = windows.starts_in(window);
    let first = first.max(from);
    // A call that costs more than a whole window has one for itself.
    let most = limit.full().max(cost.credit) - cost.credit;
    let headroom = limit.headroom(cost.tier) + windows.held_back(limit, window);
    let (room, headroom) = (most - used, headroom.min(most));
    let start = if headroom <= room {
        first
    } else {
        // headroom × what is left of the window ≤ room × the whole window
        first.max(window.ends - room.share_of(headroom, window.length()))
    };
    if start < last { Ok(start) } else { Err(window.ends) }
}

/// The present window of a bucket that has windows, and what others use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowState {
    pub(crate) ends: Option<Time>,
    /// The interval in which the upstream's window ends, if its responses tell.
    pub(crate) reported_end: Option<Interval>,
    pub(crate) claimed: Credit,
    pub(crate) held_for_others: Credit,
}

/// Each window lowers an expectation that is too high by one part in this many of the difference.
const FALL_PART: u64 = 16;

/// Usage by others, window by window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExpectedUsage {
    ends: Option<Time>,
    used: Credit,
    expected: Credit,
}

impl ExpectedUsage {
    pub(crate) fn note(&mut self, window: Window, used: Credit) {
        if !self.is_reported(window) {
            (self.expected, self.used) = (self.of(window), Credit::ZERO);
        }
        (self.ends, self.used) = (Some(window.ends), self.used.max(used));
    }

    pub(crate) fn of(&self, window: Window) -> Credit {
        let less = (self.expected - self.used).max(Credit::ZERO);
        match self.is_reported(window) || self.ends.is_none() {
            true => self.expected,
            false => self.expected.max(self.used) - less.divided_by(FALL_PART),
        }
    }

    /// Whether the last report was on `window`, whose end may have become known better since.
    fn is_reported(&self, window: Window) -> bool {
        let middle = window.starts + Span::from_nanos(window.length().nanos() / 2);
        self.ends.is_some_and(|ends| ends > middle)
    }
}

/// Returns the most that is held back of a limit. The floor of its learning stays for permits. Long
/// limits hold nothing back, because that would last too long.
pub(crate) fn most_expected(limit: &Limit) -> Credit {
    const PARTS: u64 = 1000;
    match limit.spec().learn {
        Learn::Above(floor) if !limit.has_long_period() => {
            limit.full().divided_by(PARTS).times(((1.0 - floor) * PARTS as f64) as u64)
        }
        Learn::Above(_) | Learn::Never | Learn::Steered(_) => Credit::ZERO,
    }
}

/// A bucket that seems too low rises by at most one part in this many of the nominal refill since
/// its last rise. In a bucket that counts calls, the claim falls by that amount.
pub(crate) const RAISE_PART: u64 = 20;

/// The report of one response on one bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketReading {
    pub(crate) at: Time,
    pub(crate) remaining: Credit,
    /// When all used stock is back, at the latest.
    pub(crate) resets: Option<Time>,
    pub(crate) ends: Option<Interval>,
}

/// The usage by others, who ask no scheduler for permits, according to the last response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) credit: Credit,
    pub(crate) until: Time,
    /// When it is forgotten unless a response repeats it, if before `until`.
    pub(crate) expires: Option<Time>,
}

impl Claim {
    /// Creates the claim of a reading at `now`, which counts for a minute without another one, but
    /// not beyond `resets`, when the upstream's count begins again.
    pub(crate) fn new(now: Time, credit: Credit, until: Time, resets: Option<Time>) -> Self {
        let expires = resets.map_or(now + UNCONFIRMED, |resets| resets.min(now + UNCONFIRMED));
        Claim { credit, until, expires: Some(expires).filter(|expires| *expires < until) }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct UpstreamReports {
    pub(crate) claim: Option<Claim>,
    pub(crate) phase: Option<Phase>,
    pub(crate) expected: ExpectedUsage,
    /// A value right after each start: in fixed windows the sum of all starts, otherwise the usage.
    pub(crate) starts: LevelHistory,
    started: Credit,
    lowered: Time,
}

impl UpstreamReports {
    pub(crate) fn new(now: Time, phase: Option<Phase>) -> Self {
        UpstreamReports {
            claim: None,
            phase,
            expected: ExpectedUsage::default(),
            starts: LevelHistory::of(MAX_FEW),
            started: Credit::ZERO,
            lowered: now,
        }
    }

    /// Restores the phase alone. A successor learns what others use from the next response.
    pub(crate) fn restored(limit: &Limit, now: Time, reported: ReportedUsage, times: RecordTimes) -> Self {
        let interval = |(from, until)| Interval { from: times.earliest(from), until: times.latest(until) };
        let phase = reported.window_ends.and_then(|ends| Phase::new(now, limit.spec().period, interval(ends)));
        UpstreamReports::new(now, phase)
    }

    /// Records the reported windows, if any, for a successor. It cuts its windows alike, as records
    /// have usage by window.
    pub(crate) fn recorded(&self, now: Time) -> Option<ReportedUsage> {
        let ends = self.phase?.cut;
        Some(ReportedUsage { window_ends: Some((Offset::between(now, ends.from), Offset::between(now, ends.until))) })
    }

    pub(crate) fn note_start(&mut self, at: Time, cost: Credit) {
        self.started += cost;
        self.starts.note(at, self.started);
    }

    /// Notes that a call which started at `at` has cost `more` than it was charged.
    pub(crate) fn note_correction(&mut self, at: Time, more: Credit) {
        self.started += more;
        self.starts.shift_from(at, more);
    }

    pub(crate) fn started_after(&self, time: Time) -> Credit {
        self.started - self.starts.noted_at(time).unwrap_or(Credit::ZERO)
    }

    pub(crate) fn started_since(&self, time: Time) -> Credit {
        self.started - self.starts.noted_before(time).unwrap_or(Credit::ZERO)
    }

    pub(crate) fn claimed(&self, now: Time) -> Credit {
        self.claim.filter(|claim| claim.until > now).map_or(Credit::ZERO, |claim| claim.credit)
    }

    /// Returns the claim after a reading. More is believed at once; of less, only a small part of
    /// the refill since the last time, as calls on their way may not be counted yet.
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

    /// Returns the phase alone, if the period is the same. Claims stay as anonymous usage.
    pub(crate) fn phase_alone(&self, now: Time, period: Span) -> Option<Self> {
        let phase = self.phase.filter(|phase| phase.period == period)?;
        let starts = LevelHistory::of(self.starts.most);
        Some(UpstreamReports { starts, ..UpstreamReports::new(now, Some(phase)) })
    }
}
