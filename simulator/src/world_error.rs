//! Why a world cannot run.

use rampmeter_policy::spec::SpecError;

/// A fault of a world, and where it is.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorldError {
    /// The core does not accept the resource.
    #[error("the resource: {0}")]
    Resource(SpecError),
    /// Policies or costs are invalid at the upstream.
    #[error("the upstream: {0}")]
    Upstream(String),
    /// The core would refuse the requests of a fleet.
    #[error("fleet `{fleet}`: {reason}")]
    Fleet {
        /// The fleet.
        fleet: String,
        /// Why.
        reason: String,
    },
    /// Two fleets have the same name.
    #[error("there are two fleets `{0}`")]
    Twice(String),
    /// Workers never stop, in a world without an end.
    #[error("fleet `{0}` never stops; say how many calls it makes, or when it or the world ends")]
    Endless(String),
}
