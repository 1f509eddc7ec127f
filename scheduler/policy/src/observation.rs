//! The content of a response of the upstream about its limits.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Span;
use std::ops::RangeInclusive;

/// The name that dialects give to the limit of all calls, which no header describes.
const GLOBAL: &str = "global";

/// The content of one response, independent of the upstream's dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Whether a limit rejected the call.
    pub verdict: Verdict,
    /// The remaining amounts after this call.
    pub readings: Vec<Reading>,
    /// The actual cost of the call, by unit.
    pub spent: Vec<(String, Amount)>,
}

/// Whether a limit of the upstream rejected a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No limit rejected the call, which may have failed for another reason.
    Passed,
    /// The call was too early.
    Limited {
        /// The limits that rejected it.
        scope: Scope,
        /// The pause that the upstream asks for.
        retry_after: Option<Span>,
        /// Whether the upstream blames others' calls; such a rejection teaches nothing.
        by_other_accounts: bool,
    },
    /// The upstream has no room for the call now, and says nothing more.
    Busy,
    /// Too many calls were in flight. Nothing was charged, and another call has to end first.
    Crowded,
    /// A quota is spent. Retries before its reset are useless.
    Exhausted {
        /// The spent limits.
        scope: Scope,
        /// The time until the reset.
        reset: Option<Span>,
    },
}

/// The limits that a statement is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The limits that the call was charged to, because the response names none.
    Unnamed,
    /// The limits that count this unit.
    Unit(String),
    /// The limit of this name. If the resource has none, a limit that only some calls share, since
    /// calls may meet any number of such limits.
    Limit(String),
    /// The limit of this name, which applies to all calls, or else the limits that the call was charged to.
    Policy(String),
    /// Limits, unnamed by the response, that only some calls share by a condition or a key.
    Narrow,
}

/// The remaining amount in one bucket of the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The limits that it is about.
    pub scope: Scope,
    /// The remaining amount.
    pub remaining: Amount,
    /// The step to which the upstream rounds `remaining`, usually one.
    pub remaining_grain: Amount,
    /// The amount in a full bucket or window.
    pub capacity: Option<Amount>,
    /// The time until the bucket is full or the window ends.
    pub reset: Option<Span>,
    /// The greatest error of `reset`, as headers often count whole seconds.
    pub reset_grain: Span,
    /// The limit of the bucket, as far as the response describes it.
    pub described: Described,
}

/// The properties of a reading's limit, as far as the response describes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// The name that the response gives it, used in place of the scope's.
    pub name: Option<String>,
    /// The time in which a bucket fills, or the length of a window.
    pub period: Option<Span>,
    /// Whether it refills all the time, and not at the end of a window.
    pub is_gradual: bool,
    /// Whether it has a bucket for each value of a key; `None` if the response does not say.
    pub is_keyed: Option<bool>,
}

impl Scope {
    /// Returns whether a rejection with this scope may be by a limit that no response describes.
    #[must_use]
    pub fn may_be_unnamed(&self) -> bool {
        match self {
            Scope::Unnamed => true,
            Scope::Limit(_) => self.is_global(),
            Scope::Unit(_) | Scope::Policy(_) | Scope::Narrow => false,
        }
    }

    /// Returns whether it is the limit of all calls.
    #[must_use]
    pub fn is_global(&self) -> bool {
        matches!(self, Scope::Limit(name) if name == GLOBAL)
    }
}

impl Reading {
    /// Creates a reading of a remaining amount in whole units, and of nothing else.
    #[must_use]
    pub fn new(scope: Scope, remaining: Amount) -> Self {
        Reading {
            scope,
            remaining,
            remaining_grain: Amount::ONE,
            capacity: None,
            reset: None,
            reset_grain: Reading::grain_of(None),
            described: Described::default(),
        }
    }

    /// Returns the amounts that may remain. Fractions may be rounded up, larger steps both ways.
    #[must_use]
    pub fn remaining_range(&self) -> RangeInclusive<Amount> {
        let coarse = self.remaining_grain.saturating_sub(Amount::ONE);
        self.remaining.saturating_sub(self.remaining_grain)..=self.remaining.saturating_add(coarse)
    }

    /// Returns the greatest error of a `reset`: one second for whole seconds, else one millisecond.
    #[must_use]
    pub fn grain_of(reset: Option<Span>) -> Span {
        const SECOND: Span = Span::from_secs(1);
        let is_whole = reset.is_none_or(|reset| reset.nanos() % SECOND.nanos() == 0);
        if is_whole { SECOND } else { Span::from_millis(1) }
    }
}
