//! The part of a snapshot that says what was learned of a limit.

use crate::policy::Limit;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use serde::{Deserialize, Serialize};

/// The policy under which a lesson was learned. A limit with another policy starts without lessons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitPolicy {
    /// The unit that it counts.
    pub unit: Name,
    /// Its algorithm, as the configuration writes it. Another build may know others.
    pub algorithm: String,
    /// The documented capacity, in millionths.
    #[serde(rename = "capacity")]
    pub capacity_micros: u64,
    /// The documented time in which an empty bucket fills.
    pub period: Span,
}

impl LimitPolicy {
    pub(crate) fn of(limit: &Limit) -> Self {
        LimitPolicy {
            unit: limit.spec().unit.clone(),
            algorithm: limit.spec().algorithm.as_str().to_owned(),
            capacity_micros: limit.spec().capacity.micros(),
            period: limit.spec().period,
        }
    }
}

/// A capacity that the upstream states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatedSnapshot {
    /// The written capacity at that time, in millionths. If the limit's capacity is another one by
    /// now, the statement does not count.
    #[serde(rename = "written")]
    pub written_micros: u64,
    /// The capacity that counts in its place, in millionths.
    #[serde(rename = "capacity")]
    pub capacity_micros: u64,
    /// How long it had counted at the snapshot.
    pub age: Span,
}

/// The lessons about an upstream's limit. A lesson only ever takes capacity away, and it fades with
/// time even while no scheduler runs.
///
/// Amounts are in millionths of a unit and rounded up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedSnapshot {
    /// The policy that it was learned under.
    #[serde(flatten)]
    pub policy: LimitPolicy,
    /// The loss of rate at the last estimate, in millionths of the policy's rate.
    #[serde(rename = "loss")]
    pub loss_ppm: u64,
    /// The age of that estimate at the snapshot.
    #[serde(rename = "estimated")]
    pub estimated_ago: Span,
    /// The age of the last known level of the upstream at the snapshot.
    #[serde(rename = "known", skip_serializing_if = "Option::is_none", default)]
    pub known_ago: Option<Span>,
    /// The refill that the slower rate has kept back since that level was known.
    #[serde(rename = "kept_back")]
    pub kept_back_micros: u64,
    /// The stock that is held back against uneven losses.
    #[serde(rename = "stock")]
    pub stock_micros: u64,
    /// The deficit of a full bucket.
    #[serde(rename = "burst")]
    pub burst_micros: u64,
}
