//! What is wrong with a world.

use rampmeter_scheduler_core::policy::spec::SpecError;

/// A fault of a world, and where it is.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorldError {
    /// The core does not accept the resource.
    #[error("the resource: {0}")]
    Resource(SpecError),
    /// The upstream does not accept its policies or the costs.
    #[error("the upstream: {0}")]
    Upstream(String),
    /// The core would refuse what a fleet asks for.
    #[error("fleet `{fleet}`: {reason}")]
    Fleet {
        /// The fleet.
        fleet: String,
        /// Why.
        reason: String,
    },
    /// Fleets with the same name.
    #[error("there are two fleets `{0}`")]
    Twice(String),
    /// Workers that never stop, in a world without an end.
    #[error("fleet `{0}` never stops; say how many calls it makes, or when it or the world ends")]
    Endless(String),
}
