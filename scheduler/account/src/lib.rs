//! The limits of a resource, asked of its provider: a service of the upstream.
//!
//! The leader of the resource asks one question at a time, and again after an error; known limits stay.
//!
//! * After a failure the provider is not asked for 1 s, doubling up to 60 s, with jitter. Access tokens outlive terms.
//! * An answer counts as a whole or not at all. A contract that is empty, negative, huge or contradictory is a
//!   failure like a 500. An amount that never refills (`PT0S`) is a quota that is never reset.
//! * A secret is read when a token is needed; no printed structure holds it, and no error repeats what was received.
//!   Libraries that see headers log only at `debug` and above. `tests/tests/system/account/secrets.rs` tests it.
//! * An access token's signature is not checked: it comes straight from its endpoint, and its `sub` only enters a path.

mod contract;
pub mod duration;
mod error;
mod http;
pub mod matching;
mod oauth;
pub mod poll_schedule;
mod provided;
mod secret;
mod sentinel_hub;
mod token;
mod token_counts;
pub mod token_permits;

pub use error::{FailureKind, ProviderError, Question};
pub use oauth::{Credentials, OAuth};
pub use provided::{Contract, ProvidedLevel, ProvidedLimit};
pub use secret::SecretSource;
pub use sentinel_hub::SentinelHub;
pub use token::AccessToken;

use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;

/// The name of the kind of provider in configuration and status.
pub const KIND: &str = "sentinel-hub";

/// The provider to ask, and how often.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// The URL before `/aux/ratelimit`, without a slash at its end.
    pub base_url: String,
    /// The credentials of the client.
    pub credentials: Credentials,
    /// The longest time that an answer may take.
    pub timeout: Span,
    /// The interval of questions for the limits.
    pub contract_every: Span,
    /// The interval of questions for levels; `None` if they are not asked for.
    pub levels_every: Option<Span>,
    /// The resource whose permits requests for access tokens take; `None` if they take none.
    pub token_resource: Option<Name>,
    /// Whether workers may ask for the access token.
    pub share_token: bool,
}
