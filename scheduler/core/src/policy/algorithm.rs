//! How limits count: the algorithms that a configuration names, and the three ways of counting that
//! implement them.
//!
//! A new algorithm is a variant of [`Algorithm`]. It is a variant of `Counting`, too, if no present
//! variant fits.

use crate::arithmetic::{Alignment, WindowAlignment};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;

/// How a limit counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// A bucket holds `capacity`, and fills within `period`.
    #[default]
    TokenBucket,
    /// A bucket runs over at `capacity`, and drains within `period`. This is a token bucket seen
    /// from below. A call that does not fit adds nothing.
    LeakyBucket,
    /// `capacity` in each window of time. Windows of a day or a month are as long as the calendar
    /// says, whatever the `period`.
    FixedWindow(Alignment),
    /// `capacity` in every stretch of time of length `period`.
    SlidingWindow,
    /// `capacity` in flight: each call holds what it costs until it is settled, or `period` after
    /// its start or its last renewal.
    Concurrency,
    /// `capacity` until the quota is reset, if ever. A request is refused, not queued, while the
    /// quota is spent.
    Quota(Option<Alignment>),
}

impl Algorithm {
    /// As configuration and status write it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Algorithm::TokenBucket => "token-bucket",
            Algorithm::LeakyBucket => "leaky-bucket",
            Algorithm::FixedWindow(_) => "fixed-window",
            Algorithm::SlidingWindow => "sliding-window",
            Algorithm::Concurrency => "concurrency",
            Algorithm::Quota(_) => "quota",
        }
    }
}

/// The kind of a limit's buckets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Counting {
    /// Tokens that are refilled steadily.
    Tokens,
    /// Windows of time, each with its own capacity.
    Windows(WindowAlignment),
    /// Room that calls take up for some time.
    Occupied(Occupancy),
}

/// For how long a call takes up room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occupancy {
    length: Span,
    /// Whether the call also stops taking up room when it is settled, and can be renewed.
    until_settled: bool,
}

impl Counting {
    /// How `algorithm` counts. Starts stay away from the ends of windows by `guard`, and by `jitter`
    /// if the upstream reports these ends.
    pub(crate) fn new(algorithm: &Algorithm, period: Span, guard: Span, jitter: Span) -> Self {
        // A sliding window bounds every window that begins with its first call.
        let sliding = Counting::Occupied(Occupancy { length: period + jitter, until_settled: false });
        let windows = |alignment| {
            let guards = (guard, jitter);
            WindowAlignment::new(alignment, period, WallClockOrigin::UNIX_EPOCH, guards).map(Counting::Windows)
        };
        match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Counting::Tokens,
            Algorithm::FixedWindow(alignment) => windows(Some(alignment)).unwrap_or(sliding),
            Algorithm::Quota(alignment) => windows(alignment.as_ref()).unwrap_or(sliding),
            Algorithm::SlidingWindow => sliding,
            Algorithm::Concurrency => Counting::Occupied(Occupancy { length: period, until_settled: true }),
        }
    }

    /// Whether buckets hold tokens.
    pub(crate) fn is_tokens(&self) -> bool {
        *self == Counting::Tokens
    }

    /// How windows are cut, if there are any.
    pub(crate) fn alignment(&self) -> Option<&WindowAlignment> {
        match self {
            Counting::Windows(alignment) => Some(alignment),
            Counting::Tokens | Counting::Occupied(_) => None,
        }
    }

    /// Whether calls take up room until they are settled.
    pub(crate) fn counts_calls_in_flight(&self) -> bool {
        matches!(self, Counting::Occupied(occupancy) if occupancy.until_settled)
    }

    /// This counting by another wall clock.
    pub(crate) fn with_wall_clock(self, wall_clock: WallClockOrigin) -> Self {
        match self {
            Counting::Windows(alignment) => Counting::Windows(alignment.with_wall_clock(wall_clock)),
            Counting::Tokens | Counting::Occupied(_) => self,
        }
    }

    /// The latest time at which a start at `time` stops counting. None for tokens.
    pub(crate) fn counts_until(&self, time: Time) -> Option<Time> {
        match self {
            Counting::Tokens => None,
            Counting::Windows(alignment) => Some(alignment.window(time).ends),
            Counting::Occupied(occupancy) => Some(time + occupancy.length),
        }
    }

    /// How much longer a call counts under `other`. None unless this is a sliding window, and
    /// `other` counts calls for longer.
    pub(crate) fn counts_longer_as(&self, other: &Counting) -> Option<Span> {
        match (self, other) {
            (Counting::Occupied(own), Counting::Occupied(others))
                if !own.until_settled && own.length < others.length =>
            {
                Some(others.length.saturating_sub(own.length))
            }
            (Counting::Tokens | Counting::Windows(_) | Counting::Occupied(_), _) => None,
        }
    }
}
