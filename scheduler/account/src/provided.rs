//! The interface of a provider, and its answers.

use super::error::ProviderError;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use secrecy::SecretString;

/// Knows an account's limits, and perhaps the levels of their buckets.
///
/// The leader of the resource asks one question at a time. The provider keeps what it needs between
/// questions, such as an access token. A question may be dropped at any await. An error contains no
/// secret and nothing that the other side sent. Every answer is checked, and implausible limits are
/// an error too. After an error the leader keeps the known limits and asks again later.
///
/// ```
/// use rampmeter_protocol::{amount::Amount, name::Name, time::Span};
/// use rampmeter_account::{Contract, ProvidedLevel, ProvidedLimit, Provider, ProviderError};
///
/// /// An upstream with the same limit for all accounts.
/// struct SameForAll;
///
/// impl Provider for SameForAll {
///     async fn limits(&mut self) -> Result<Contract, ProviderError> {
///         let unit = Name::new("requests").expect("a valid name");
///         let limit = ProvidedLimit { unit, capacity: Amount::ONE, period: Some(Span::from_secs(1)) };
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

    /// The account's access token, for workers; nothing if the provider has none.
    fn access_token(&mut self) -> impl Future<Output = Result<Option<SharedToken>, ProviderError>> + Send {
        std::future::ready(Ok(None))
    }
}

/// An access token for workers. Its `Debug` output hides the token.
#[derive(Clone, Debug)]
pub struct SharedToken {
    /// The token.
    pub secret: SecretString,
    /// When it is replaced.
    pub until: Time,
}

/// The limits of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// The limits: token buckets, and amounts that never refill.
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
    /// The time in which an empty bucket fills; none if it never refills.
    pub period: Option<Span>,
}

/// The level of one bucket of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedLevel {
    /// The unit that the limit counts.
    pub unit: Name,
    /// The time in which an empty bucket fills; none if it never refills. Unit and period together
    /// identify the bucket.
    pub period: Option<Span>,
    /// The level, rounded down.
    pub remaining: Amount,
}
