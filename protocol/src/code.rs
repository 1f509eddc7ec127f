//! Why a request was refused.

use serde::{Deserialize, Serialize};

/// The code of a refusal. Each stands for one status in the header `Nats-Service-Error-Code`;
/// several codes share a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request would have to wait longer than it may, or the call was renewed after its lease.
    /// A refused request is charged nothing.
    NotInTime,
    /// The cost exceeds what a limit can ever hold.
    NeverFits,
    /// A quota of the upstream is used up. Asking again before its reset is useless.
    QuotaSpent,
    /// A bound of the scheduler's memory is reached: waiting requests, remembered permits or
    /// purges. The message names it.
    QueueFull,
    /// No limit matches, and the resource says `unmatched = "refuse"`.
    NoLimit,
    /// The number of distinct bucket keys has reached its bound.
    TooManyKeys,
    /// No scheduler serves this resource.
    UnknownResource,
    /// The scheduler does not know this permit, or the permit was given back.
    UnknownPermit,
    /// The id belongs to another request, which waits or is under way.
    IdInUse,
    /// The permit's start is past, and no settle reported a call. Asking under a new id is charged
    /// anew.
    Lapsed,
    /// The call of this permit was settled. Another call needs another id.
    AlreadySettled,
    /// The resource has no such class.
    UnknownClass,
    /// No limit of the resource counts this unit. The unit is `requests` if no cost is stated.
    UnknownUnit,
    /// The message does not follow the protocol.
    InvalidRequest,
    /// The token may not name this resource, class or client.
    Forbidden,
    /// An operator ended the wait. The request is given up.
    Purged,
    /// This scheduler hands over. Ask again at once.
    Unavailable,
    /// A code of a later version of the protocol.
    #[serde(other)]
    Other,
}

impl Code {
    /// All codes of this version.
    pub const ALL: [Code; 17] = [
        Code::NotInTime,
        Code::NeverFits,
        Code::QuotaSpent,
        Code::QueueFull,
        Code::NoLimit,
        Code::TooManyKeys,
        Code::UnknownResource,
        Code::UnknownPermit,
        Code::IdInUse,
        Code::Lapsed,
        Code::AlreadySettled,
        Code::UnknownClass,
        Code::UnknownUnit,
        Code::InvalidRequest,
        Code::Forbidden,
        Code::Purged,
        Code::Unavailable,
    ];

    /// The HTTP status with the same meaning.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Code::NotInTime => 429,
            Code::NeverFits => 422,
            Code::QuotaSpent | Code::Forbidden => 403,
            Code::QueueFull | Code::NoLimit | Code::TooManyKeys | Code::Unavailable => 503,
            Code::UnknownResource | Code::UnknownPermit => 404,
            Code::Lapsed => 410,
            Code::IdInUse | Code::Purged | Code::AlreadySettled => 409,
            Code::UnknownClass | Code::UnknownUnit | Code::InvalidRequest => 400,
            Code::Other => 500,
        }
    }

    /// The text on the wire, in logs and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::NotInTime => "not_in_time",
            Code::NeverFits => "never_fits",
            Code::QuotaSpent => "quota_spent",
            Code::QueueFull => "queue_full",
            Code::NoLimit => "no_limit",
            Code::TooManyKeys => "too_many_keys",
            Code::UnknownResource => "unknown_resource",
            Code::UnknownPermit => "unknown_permit",
            Code::IdInUse => "id_in_use",
            Code::Lapsed => "lapsed",
            Code::AlreadySettled => "already_settled",
            Code::UnknownClass => "unknown_class",
            Code::UnknownUnit => "unknown_unit",
            Code::InvalidRequest => "invalid_request",
            Code::Forbidden => "forbidden",
            Code::Purged => "purged",
            Code::Unavailable => "unavailable",
            Code::Other => "other",
        }
    }
}
