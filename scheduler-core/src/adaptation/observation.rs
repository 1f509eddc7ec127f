//! What an upstream's answer tells of its buckets.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Span;

/// What one answer of the upstream's tells, once its dialect is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Whether a limit objected.
    pub verdict: Verdict,
    /// What it says is left in its buckets, this call counted.
    pub readings: Vec<Reading>,
    /// What it says the call cost, by unit.
    pub spent: Vec<(String, Amount)>,
}

/// Whether a limit of the upstream's objected to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// None did, whatever else became of the call.
    Passed,
    /// The call came too early.
    Limited {
        /// Which limits objected, as far as the upstream tells.
        scope: Scope,
        /// How long to be silent.
        retry_after: Option<Span>,
        /// Whether the calls that were too many are those of others, by the upstream's own word: nothing is to be learned
        /// from it.
        others: bool,
    },
    /// A quota is gone: coming back before its reset is useless.
    Exhausted {
        /// Which limits, as far as the upstream tells.
        scope: Scope,
        /// How long until its reset.
        reset: Option<Span>,
    },
}

/// Which limits something is said of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Those that the call was charged to; the upstream does not name any.
    Unnamed,
    /// Those that count this unit.
    Unit(String),
    /// The limit of this name, if there is one; those that the call was charged to otherwise.
    Limit(String),
}

/// What is left in a bucket of the upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Whose.
    pub scope: Scope,
    /// What is left.
    pub remaining: Amount,
    /// What the bucket or window holds when it is full.
    pub capacity: Option<Amount>,
    /// How long until it is full again, or its window ends.
    pub reset: Option<Span>,
}
