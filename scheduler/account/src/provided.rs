//! The answers of a provider.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;

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
    /// The time in which an empty bucket fills; `None` if it never refills.
    pub period: Option<Span>,
}

/// The level of one bucket of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedLevel {
    /// The unit that the limit counts.
    pub unit: Name,
    /// The time in which an empty bucket fills; with the unit, it identifies the bucket.
    pub period: Option<Span>,
    /// The level, rounded down.
    pub remaining: Amount,
}
