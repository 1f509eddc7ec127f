//! Which limits count: those of the configuration, of the rules in the store, or of the upstream's provider.

pub mod effective_limits;
pub(crate) mod first_limits;
pub(crate) mod provider_news;
pub(crate) mod provider_watch;
pub mod rulebook;
