//! What a provider is asked, and what it tells.

use super::error::ProviderError;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;

/// Tells an account's limits, and where it can also what their buckets hold.
///
/// A provider is asked one question at a time, by whoever leads the resource, and keeps between
/// questions what it needs to ask, such as an access token. A question may be given up at any
/// await. An error says what went wrong, and neither a secret nor anything else that the other side
/// sent; everything that is believed was checked, so that limits which make no sense are an error
/// too. Whoever asks keeps the limits that were known before, and asks again later.
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
