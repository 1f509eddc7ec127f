//! The limits of an account, asked of its provider: a service of the upstream.
//!
//! A new kind of provider is a type that implements [`Provider`]. It needs a variant of [`Kind`]
//! with its settings, a variant of [`ProviderSource`], and its keys in
//! `scheduler/config/src/provider.rs`. All kinds share the times of questions, the pauses after
//! failures, and the use of the answers.
//!
//! * After a failure the provider is not asked for 1 s. The pause doubles up to 60 s, with jitter.
//!   An access token is kept from one term to the next.
//! * An answer counts as a whole or not at all. A contract that is empty, negative, huge or
//!   contradictory is a failure like a 500. An amount that never refills (`PT0S`) is a quota that
//!   is never reset.
//! * A secret is read when a token is needed, and no structure that is printed holds it. An error
//!   about a provider repeats nothing that was received. Libraries that see headers never log below
//!   `debug`. `tests/tests/system/account/secrets.rs` looks for secrets in all output.
//! * The signature of an access token is not checked: the token comes straight from the token
//!   endpoint. Its `sub` only becomes part of a path.

mod contract;
pub mod duration;
mod error;
mod http;
pub mod matching;
mod oauth;
pub mod poll_schedule;
mod provided;
mod secret;
pub mod sentinel_hub;
mod token;
mod token_counts;
pub mod token_permits;

pub use error::{FailureKind, ProviderError, Question};
pub use oauth::{Credentials, OAuth};
pub use provided::{Contract, ProvidedLevel, ProvidedLimit, Provider, SharedToken};
pub use secret::SecretSource;

use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use sentinel_hub::SentinelHub;
use token_permits::TokenPermits;

/// The provider to ask, and how often.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// The kind of provider.
    pub kind: Kind,
    /// The interval of questions for the limits.
    pub contract_every: Span,
    /// The interval of questions for levels; none if they are not asked for.
    pub levels_every: Option<Span>,
}

/// A kind of provider with its settings.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The configuration file, with these limits.
    Static(Contract),
    /// The service of Sentinel Hub or Copernicus.
    SentinelHub(sentinel_hub::SentinelHubSettings),
}

impl Kind {
    /// The name in configuration and status.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Static(_) => "static",
            Kind::SentinelHub(_) => "sentinel-hub",
        }
    }

    /// The resource whose permits its requests for access tokens take, if they take any.
    #[must_use]
    pub fn token_resource(&self) -> Option<&Name> {
        match self {
            Kind::Static(_) => None,
            Kind::SentinelHub(settings) => settings.token_resource.as_ref(),
        }
    }

    /// Whether workers may ask for its access token.
    #[must_use]
    pub fn shares_token(&self) -> bool {
        match self {
            Kind::Static(_) => false,
            Kind::SentinelHub(settings) => settings.share_token,
        }
    }

    /// Opens the provider. It asks no question yet.
    ///
    /// # Errors
    /// If its secrets can't be read, or the system has no certificates for TLS.
    pub fn open(&self, clock: Clock) -> anyhow::Result<ProviderSource> {
        match self {
            Kind::Static(contract) => Ok(ProviderSource::Static(Static(contract.clone()))),
            Kind::SentinelHub(settings) => {
                Ok(ProviderSource::SentinelHub(Box::new(SentinelHub::open(settings, clock)?)))
            }
        }
    }
}

/// An open provider of any kind.
#[derive(Debug)]
pub enum ProviderSource {
    /// The configuration file.
    Static(Static),
    /// The service of Sentinel Hub or Copernicus.
    SentinelHub(Box<SentinelHub>),
}

impl ProviderSource {
    /// Takes a permit for each request for an access token.
    #[must_use]
    pub fn with_token_permits(mut self, permits: TokenPermits) -> Self {
        match &mut self {
            ProviderSource::Static(_) => {}
            ProviderSource::SentinelHub(provider) => provider.set_token_permits(permits),
        }
        self
    }
}

impl Provider for ProviderSource {
    async fn limits(&mut self) -> Result<Contract, ProviderError> {
        match self {
            ProviderSource::Static(provider) => provider.limits().await,
            ProviderSource::SentinelHub(provider) => provider.limits().await,
        }
    }

    async fn levels(&mut self) -> Result<Option<Vec<ProvidedLevel>>, ProviderError> {
        match self {
            ProviderSource::Static(provider) => provider.levels().await,
            ProviderSource::SentinelHub(provider) => provider.levels().await,
        }
    }

    async fn access_token(&mut self) -> Result<Option<SharedToken>, ProviderError> {
        match self {
            ProviderSource::Static(provider) => provider.access_token().await,
            ProviderSource::SentinelHub(provider) => provider.access_token().await,
        }
    }
}

/// The configuration file as a provider: its limits never change, and it knows no levels.
#[derive(Clone, Debug)]
pub struct Static(Contract);

impl Provider for Static {
    async fn limits(&mut self) -> Result<Contract, ProviderError> {
        Ok(self.0.clone())
    }

    async fn levels(&mut self) -> Result<Option<Vec<ProvidedLevel>>, ProviderError> {
        Ok(None)
    }
}
