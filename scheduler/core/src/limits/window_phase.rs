//! When an upstream's windows end, by its own reports.
//!
//! An answer says how soon its window ends, often in whole seconds. The answer was written between
//! the call's start and its arrival here. So it names an interval in which a window ends. Answers
//! that agree narrow the interval down. Starts stay out of it, because a call there could count in
//! either of two windows.

use super::expected_usage::{ExpectedUsage, most_expected};
use crate::arithmetic::{Credit, Window, WindowAlignment};
use crate::policy::Limit;
use rampmeter_protocol::time::{Span, Time};

/// An interval that is longer than one part in this many of the window says too little.
const VAGUE_PART: u64 = 4;
/// This many reports in a row move windows.
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

    /// The part that both have in common.
    fn common(self, other: Interval) -> Option<Interval> {
        let both = Interval { from: self.from.max(other.from), until: self.until.min(other.until) };
        (both.from <= both.until).then_some(both)
    }

    /// This interval, moved by whole periods as near to `other` as possible.
    fn nearest_to(self, other: Interval, period: Span) -> Interval {
        let (period, half) = (i128::from(period.nanos()), i128::from(period.nanos() / 2));
        let ahead = i128::from(self.until.nanos()) - i128::from(other.until.nanos());
        let back = (ahead + half).div_euclid(period) * period;
        let moved =
            |time: Time| Time::from_nanos((i128::from(time.nanos()) - back).clamp(0, i128::from(u64::MAX)) as u64);
        Interval { from: moved(self.from), until: moved(self.until) }
    }
}

/// The effect of a report of when a window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportEffect {
    /// It agrees with what is known.
    Agrees,
    /// Windows are cut otherwise from now on.
    CutsAnew,
    /// It is not believed.
    Contradicts,
}

/// The ends of windows, as far as responses tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    period: Span,
    /// The interval in which a window ends, by all responses.
    known: Interval,
    /// The interval that cuts windows: it follows `known` only if that is much shorter.
    cut: Interval,
    /// When a report last moved the windows.
    moved: Time,
    /// What the last reports told in a row, if that contradicts `known`, and their number.
    contradicted: Option<(Interval, u32)>,
}

impl Phase {
    /// The phase that one response tells; none if it tells too little.
    pub(crate) fn new(now: Time, period: Span, ends: Interval) -> Option<Self> {
        let says_enough = ends.length().nanos() <= period.nanos() / VAGUE_PART;
        says_enough.then_some(Phase { period, known: ends, cut: ends, moved: now, contradicted: None })
    }

    /// Takes a report that a window ends in `ends`. [`CONSISTENT`] reports in a row that agree with
    /// each other and contradict what is known move the windows, once in a period.
    pub(crate) fn take_report(&mut self, now: Time, ends: Interval) -> ReportEffect {
        let ends = ends.nearest_to(self.known, self.period);
        if let Some(known) = self.known.common(ends) {
            (self.known, self.contradicted) = (known, None);
            let is_much_shorter = known.length().nanos() <= self.cut.length().nanos() / 2;
            if is_much_shorter {
                self.cut = known;
            }
            return if is_much_shorter { ReportEffect::CutsAnew } else { ReportEffect::Agrees };
        }
        let Some(other) = Phase::new(now, self.period, ends) else { return ReportEffect::Contradicts };
        let agreeing = self.contradicted.filter(|(earlier, _)| earlier.common(ends).is_some());
        let reports = agreeing.map_or(1, |(_, reports)| reports + 1);
        self.contradicted = Some((ends, reports));
        if reports >= CONSISTENT && now >= self.moved + self.period {
            *self = other;
            return ReportEffect::CutsAnew;
        }
        ReportEffect::Contradicts
    }

    /// The window that `time` is in. It ends when the upstream's window has certainly ended.
    pub(crate) fn window(&self, time: Time) -> Window {
        let (period, end) = (i128::from(self.period.nanos()), i128::from(self.cut.until.nanos()));
        let windows = (i128::from(time.nanos()) - end).div_euclid(period) + 1;
        let at = |nanos: i128| Time::from_nanos(nanos.clamp(0, i128::from(u64::MAX)) as u64);
        let ends = end + windows * period;
        Window { starts: at(ends - period), ends: at(ends) }
    }

    /// How long before the end of a window the upstream's window may have ended.
    pub(crate) fn slack(&self) -> Span {
        self.cut.length()
    }

    pub(crate) fn period(&self) -> Span {
        self.period
    }

    /// The interval that cuts windows. A successor cuts its windows alike, because records have
    /// usage by window.
    pub(crate) fn cut(&self) -> Interval {
        self.cut
    }
}

/// How time is cut into windows: as configured, or as the upstream says.
#[derive(Clone, Copy)]
pub(crate) struct Windows<'a> {
    alignment: &'a WindowAlignment,
    phase: Option<&'a Phase>,
    others: Option<&'a ExpectedUsage>,
}

impl<'a> Windows<'a> {
    pub(crate) fn new(
        alignment: &'a WindowAlignment,
        phase: Option<&'a Phase>,
        others: Option<&'a ExpectedUsage>,
    ) -> Self {
        Windows { alignment, phase: phase.filter(|_| alignment.is_periodic()), others }
    }

    /// The stock of `window` that is held back for other accounts when it begins.
    pub(crate) fn held_back(self, limit: &Limit, window: Window) -> Credit {
        self.others.map_or(Credit::ZERO, |others| others.of(window).min(most_expected(limit)))
    }

    pub(crate) fn window(self, time: Time) -> Window {
        self.phase.map_or_else(|| self.alignment.window(time), |phase| phase.window(time))
    }

    /// The first and the last time at which calls may start in `window`.
    pub(crate) fn starts_in(self, window: Window) -> (Time, Time) {
        let guard = self.alignment.guard(self.phase.is_some());
        (window.starts + guard, window.ends - guard - self.slack())
    }

    pub(crate) fn slack(self) -> Span {
        self.phase.map_or(Span::ZERO, Phase::slack)
    }
}
