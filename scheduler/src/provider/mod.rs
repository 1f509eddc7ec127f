//! Who knows an account's limits: the configuration, or a service of the upstream's.
//!
//! A third kind of provider is a type that implements [`Provider`], a variant of [`Kind`] with its
//! settings and of [`ProviderSource`], and what its table needs in `config/provider.rs`. When it is
//! asked, how it is left alone after failures, who hears of it and what is made of its answers are
//! the same for all.
//!
//! * After a failure a provider is left alone for 1 s, doubled up to 60 s, with jitter. The access
//!   token outlives the term.
//! * An answer counts as a whole or not at all. A contract that is empty, negative, huge or
//!   contradicts itself is a failure like a 500. A part that no token bucket can keep (`PT0S`) is a
//!   note.
//! * A secret is read when a token is needed, and no structure that is printed holds it. An error
//!   about a provider consists of our own words and repeats nothing that was received. Libraries
//!   that see headers log at `debug` at most. `tests/tests/system/secrets.rs` looks for secrets in
//!   all output.
//! * The signature of an access token is not checked: the token comes straight from the token
//!   endpoint, and its `sub` only makes a path.

pub mod agenda;
mod contract;
mod error;
mod http;
pub mod matching;
mod oauth;
mod provided;
mod secret;
pub mod sentinel_hub;
mod token;
mod token_counts;

pub use error::{FailureKind, ProviderError, Question};
pub use provided::{Contract, ProvidedLevel, ProvidedLimit, Provider};
pub use secret::SecretPlace;

use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use sentinel_hub::SentinelHub;

/// Which provider to ask, and when.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// Which.
    pub kind: Kind,
    /// How often to ask for the limits.
    pub contract_every: Span,
    /// How often to ask for levels, if at all.
    pub levels_every: Option<Span>,
}

/// A kind of provider with what it needs.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The configuration file, which gives these limits.
    Static(Contract),
    /// Sentinel Hub's or Copernicus' own service.
    SentinelHub(sentinel_hub::SentinelHubSettings),
}

impl Kind {
    /// As configuration and status write it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Static(_) => "static",
            Kind::SentinelHub(_) => "sentinel-hub",
        }
    }

    /// Makes the provider ready to be asked. Nothing is asked yet.
    ///
    /// # Errors
    /// If its secrets can't be read, or the system gives no certificates to check an upstream's
    /// with.
    pub fn open(&self, clock: Clock) -> anyhow::Result<ProviderSource> {
        match self {
            Kind::Static(contract) => Ok(ProviderSource::Static(Static(contract.clone()))),
            Kind::SentinelHub(settings) => {
                Ok(ProviderSource::SentinelHub(Box::new(SentinelHub::open(settings, clock)?)))
            }
        }
    }
}

/// A provider of any kind.
#[derive(Debug)]
pub enum ProviderSource {
    /// The configuration file.
    Static(Static),
    /// Sentinel Hub's or Copernicus' own service.
    SentinelHub(Box<SentinelHub>),
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
}

/// The configuration file as a provider: its limits are what they are.
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
