//! The part of a snapshot that says what was learned of a limit.

use crate::policy::{Algorithm, Limit};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;

/// The policy under which a lesson was learned. A limit with another policy starts without lessons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitPolicy {
    /// The unit that it counts.
    pub unit: Name,
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// The documented capacity.
    pub capacity: Amount,
    /// The documented time in which an empty bucket fills.
    pub period: Span,
}

impl LimitPolicy {
    pub(crate) fn of(limit: &Limit) -> Self {
        LimitPolicy {
            unit: limit.spec().unit.clone(),
            algorithm: limit.spec().algorithm.clone(),
            capacity: limit.spec().capacity,
            period: limit.spec().period,
        }
    }
}

/// A capacity that the upstream states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatedSnapshot {
    /// The written capacity at that time. If the limit's capacity is another one by now, the
    /// statement does not count.
    pub written: Amount,
    /// The capacity that counts in its place.
    pub capacity: Amount,
    /// How long it had counted at the snapshot.
    pub age: Span,
}

/// The lessons about an upstream's limit. A lesson only ever takes capacity away, and it fades with
/// time even while no scheduler runs.
///
/// Amounts are in millionths of a unit and rounded up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedSnapshot {
    /// The policy that it was learned under.
    pub policy: LimitPolicy,
    /// The loss of rate at the last estimate, in millionths of the policy's rate.
    pub loss_ppm: u64,
    /// The age of that estimate at the snapshot.
    pub estimated_ago: Span,
    /// The age of the last known level of the upstream at the snapshot.
    pub known_ago: Option<Span>,
    /// The refill that the slower rate has kept back since that level was known.
    pub kept_back_micros: u64,
    /// The stock that is held back against uneven losses.
    pub stock_micros: u64,
    /// The deficit of a full bucket.
    pub burst_micros: u64,
}
