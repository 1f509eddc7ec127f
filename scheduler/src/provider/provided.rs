//! The interface of a provider, and its answers.

use super::error::ProviderError;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;

/// Knows an account's limits, and perhaps the levels of their buckets.
///
/// The leader of the resource asks one question at a time. The provider keeps what it needs between
/// questions, such as an access token. A question may be dropped at any await. An error contains no
/// secret and nothing that the other side sent. Every answer is checked, and implausible limits are
/// an error too. After an error the leader keeps the known limits and asks again later.
///
/// ```
/// use rampmeter_protocol::{amount::Amount, name::Name, time::Span};
/// use rampmeter_scheduler::provider::{Contract, ProvidedLevel, ProvidedLimit, Provider, ProviderError};
///
/// /// An upstream with the same limit for all accounts.
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
    /// All limits of the account: at least one, and none twice.
    fn limits(&mut self) -> impl Future<Output = Result<Contract, ProviderError>> + Send;

    /// The present levels of the account's buckets; nothing if the provider does not tell them.
    fn levels(&mut self) -> impl Future<Output = Result<Option<Vec<ProvidedLevel>>, ProviderError>> + Send;
}

/// The limits of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// The limits, as token buckets.
    pub limits: Vec<ProvidedLimit>,
    /// Further limits that this version can't keep to, as text for people.
    pub notes: Vec<String>,
}

/// One limit of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedLimit {
    /// The unit that the limit counts.
    pub unit: Name,
    /// The capacity of the bucket.
    pub capacity: Amount,
    /// The time in which an empty bucket fills.
    pub period: Span,
}

/// The level of one bucket of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedLevel {
    /// The unit that the limit counts.
    pub unit: Name,
    /// The time in which an empty bucket fills. Unit and period together identify the bucket.
    pub period: Span,
    /// The level, rounded down.
    pub remaining: Amount,
}
