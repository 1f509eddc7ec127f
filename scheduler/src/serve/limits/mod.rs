//! Which limits count: those of the configuration, of the rules in the store, or of the upstream's
//! provider.

pub mod effective_limits;
pub(crate) mod first_limits;
pub(crate) mod limit_change;
pub(crate) mod limit_sources;
pub mod provider_view;
pub mod rulebook;
