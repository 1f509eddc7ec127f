//! Reasons why a world cannot run.

use rampmeter_policy::spec::SpecError;

/// A reason why a world cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorldError {
    /// The core rejects the resource.
    #[error("the resource: {0}")]
    Resource(SpecError),
    /// Policies or costs are invalid at the upstream.
    #[error("the upstream: {0}")]
    Upstream(String),
    /// The core would refuse a fleet's requests.
    #[error("fleet `{fleet}`: {reason}")]
    Fleet {
        /// The fleet.
        fleet: String,
        /// The reason.
        reason: String,
    },
    /// Two fleets have this name.
    #[error("there are two fleets `{0}`")]
    Twice(String),
    /// The workers of this fleet never stop, in a world without an end.
    #[error("fleet `{0}` never stops; say how many calls it makes, or when it or the world ends")]
    Endless(String),
}
