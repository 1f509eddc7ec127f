//! What was learned of a limit, for those who come after.

use crate::policy::{Algorithm, Limit};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;

/// What something was learned of: of a limit that is any other nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitPolicy {
    /// What it counts.
    pub unit: Name,
    /// How it counts.
    pub algorithm: Algorithm,
    /// What a full bucket of the upstream holds, by its word.
    pub capacity: Amount,
    /// In which time an empty bucket fills, by its word.
    pub period: Span,
}

impl LimitPolicy {
    /// The policy of `limit`.
    pub(crate) fn of(limit: &Limit) -> Self {
        LimitPolicy {
            unit: limit.spec().unit.clone(),
            algorithm: limit.spec().algorithm.clone(),
            capacity: limit.spec().capacity,
            period: limit.spec().period,
        }
    }
}

/// How an upstream turned out to keep a limit. It only ever takes something away from what the policy says, and fades with time as if
/// whoever learned it were there still.
///
/// Amounts are in millionths of a unit and rounded up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedSnapshot {
    /// The policy that it was learned of.
    pub policy: LimitPolicy,
    /// The loss of rate when it was last estimated, in millionths of the policy's rate.
    pub loss_ppm: u64,
    /// How many nanoseconds before the snapshot that was.
    pub estimated_nanos: u64,
    /// How many nanoseconds before the snapshot the upstream's level was last known, if it ever was.
    pub known_nanos: Option<u64>,
    /// What refilling slower has kept back since then.
    pub kept_back_micros: u64,
    /// What is held back against losses that are not even.
    pub stock_micros: u64,
    /// What a full bucket holds less than the policy says.
    pub burst_micros: u64,
}
