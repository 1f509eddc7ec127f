//! Who knows an account's limits: the configuration, or a service of the upstream's.
//!
//! A third kind of provider is a type that implements [`Provider`], a variant of [`Kind`] with its settings and of [`ProviderSource`],
//! and what its table needs in `config/provider.rs`. When it is asked, how it is left alone after failures, who hears of it
//! and what is made of its answers are the same for all.

pub mod agenda;
mod contract;
mod error;
mod http;
pub mod matching;
mod oauth;
mod secret;
pub mod sentinel_hub;
mod token;
mod token_counts;

pub use error::{FailureKind, ProviderError, Question};
pub use secret::SecretPlace;

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use sentinel_hub::SentinelHub;

/// Tells an account's limits, and where it can also what their buckets hold.
///
/// A provider is asked one question at a time, by whoever leads the resource, and keeps between questions what it needs to ask,
/// such as an access token. A question may be given up at any await. An error says what went wrong, and neither a secret
/// nor anything else that the other side sent; everything that is believed was checked, so that limits which make no sense
/// are an error too. Whoever asks keeps the limits that were known before, and asks again later.
///
/// ```
/// use rampmeter_protocol::{amount::Amount, name::Name, time::Span};
/// use rampmeter_scheduler::provider::{Contract, ProvidedLevel, ProvidedLimit, Provider, ProviderError};
///
/// /// An upstream that allows everybody the same.
/// struct SameForAll;
///
/// impl Provider for SameForAll {
///     async fn limits(&mut self) -> Result<Contract, ProviderError> {
///         let unit = Name::new("requests").expect("a valid name");
///         let limit = ProvidedLimit { unit, capacity: Amount::ONE, period: Span::from_secs(1) };
///         Ok(Contract { limits: vec![limit], notes: Vec::new() })
///     }
///
///     async fn levels(&mut self) -> Result<Option<Vec<ProvidedLevel>>, ProviderError> {
///         Ok(None)
///     }
/// }
/// ```
pub trait Provider: Send {
    /// All limits of the account, at least one, none twice.
    fn limits(&mut self) -> impl Future<Output = Result<Contract, ProviderError>> + Send;

    /// What the account's buckets hold now; nothing where the provider does not tell.
    fn levels(&mut self) -> impl Future<Output = Result<Option<Vec<ProvidedLevel>>, ProviderError>> + Send;
}

/// What an account may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// Its limits, as token buckets.
    pub limits: Vec<ProvidedLimit>,
    /// What it has beside them that this version can't keep to, for people.
    pub notes: Vec<String>,
}

/// One limit of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedLimit {
    /// What it counts.
    pub unit: Name,
    /// What a full bucket holds.
    pub capacity: Amount,
    /// In which time an empty bucket fills.
    pub period: Span,
}

/// What one bucket of an account holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedLevel {
    /// What it counts.
    pub unit: Name,
    /// In which time it fills: with the unit, what tells it from the others.
    pub period: Span,
    /// What is left, rounded down.
    pub remaining: Amount,
}

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
    /// If its secrets can't be read, or the system gives no certificates to check an upstream's with.
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
