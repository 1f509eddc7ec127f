//! The options of a policy.

use std::fmt;

/// An option of a [`Policy`](crate::Policy) beyond its capacity and period, under the name in its
/// text.
///
/// ```
/// use rampmeter_upstream::{Policy, PolicyError, PolicyOption};
///
/// let error = "requests=50/10s;whole;fixed-window".parse::<Policy>().unwrap_err();
/// let PolicyError::NotTogether { option, other } = error else { panic!("{error}") };
/// assert_eq!((option, other), (PolicyOption::FixedWindow, PolicyOption::Whole));
/// assert_eq!(option.to_string(), "fixed-window");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyOption {
    /// `burst=AMOUNT`; see [`Policy::with_burst`](crate::Policy::with_burst).
    Burst,
    /// `start=AMOUNT`; see [`Policy::starting_at`](crate::Policy::starting_at).
    Start,
    /// `tick=DURATION`; see [`Policy::ticking`](crate::Policy::ticking).
    Tick,
    /// `whole`; see [`Policy::dropping_fractions`](crate::Policy::dropping_fractions).
    Whole,
    /// `fixed-window`; see [`Policy::fixed_window`](crate::Policy::fixed_window).
    FixedWindow,
    /// `phase=DURATION`; see [`Policy::with_phase`](crate::Policy::with_phase).
    Phase,
    /// `first-use`; see [`Policy::first_use_window`](crate::Policy::first_use_window).
    FirstUse,
    /// `sliding-window`; see [`Policy::sliding_window`](crate::Policy::sliding_window).
    SlidingWindow,
    /// `leaky-bucket`; see [`Policy::leaky_bucket`](crate::Policy::leaky_bucket).
    LeakyBucket,
}

impl PolicyOption {
    /// All options, in the order in which a policy prints them.
    pub const ALL: [Self; 9] = [
        Self::Burst,
        Self::Start,
        Self::Tick,
        Self::Whole,
        Self::FixedWindow,
        Self::Phase,
        Self::FirstUse,
        Self::SlidingWindow,
        Self::LeakyBucket,
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Start => "start",
            Self::Tick => "tick",
            Self::Whole => "whole",
            Self::FixedWindow => "fixed-window",
            Self::Phase => "phase",
            Self::FirstUse => "first-use",
            Self::SlidingWindow => "sliding-window",
            Self::LeakyBucket => "leaky-bucket",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|option| option.as_str() == name)
    }
}

impl fmt::Display for PolicyOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
