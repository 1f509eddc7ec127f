//! Why a request was refused.

use serde::{Deserialize, Serialize};

/// The header of a refusal with the status of its code.
pub const ERROR_CODE_HEADER: &str = "Nats-Service-Error-Code";
/// The header of a refusal with its text.
pub const ERROR_HEADER: &str = "Nats-Service-Error";

/// The code of a refusal. Each stands for one status in the header `Nats-Service-Error-Code`;
/// several codes share a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request would have to wait longer than it may, and is charged nothing. Or a call in
    /// flight was renewed after its place had been promised to another call.
    NotInTime,
    /// The cost exceeds what a limit can ever hold.
    NeverFits,
    /// A quota of the upstream is used up. Asking again before its reset is useless.
    QuotaSpent,
    /// A bound of the scheduler's memory is reached: waiting requests, answers that wait for the
    /// store, remembered permits or purges. The message names it.
    QueueFull,
    /// No limit matches, and the resource says `unmatched = "refuse"`.
    NoLimit,
    /// The number of distinct bucket keys has reached its bound.
    TooManyKeys,
    /// No scheduler serves this resource.
    UnknownResource,
    /// The scheduler does not know this permit, or the permit was given back.
    UnknownPermit,
    /// The id belongs to another request, which waits or has a permit that is not settled.
    IdInUse,
    /// The permit's start is past, and no settle reported a call. Asking under a new id is charged
    /// again.
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
    /// The scheduler cannot answer now: it hands over, its store is silent, or limits have changed.
    /// Ask again at once.
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
        self.row().status
    }

    /// The HTTP status that a server answers its own caller with, if it got no permit for the call.
    ///
    /// The status names the party that has to act. With 429 and 503 the caller has to come back
    /// later, and with 4xx to send another request. With 500 the server itself has used permits
    /// wrongly.
    #[must_use]
    pub const fn as_server(self) -> u16 {
        self.row().as_server
    }

    /// The text on the wire, in logs and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().text
    }

    /// What a client does about the refusal.
    #[must_use]
    pub const fn remedy(self) -> Remedy {
        self.row().remedy
    }

    const fn row(self) -> Row {
        match self {
            Code::NotInTime => row("not_in_time", 429, 429, Remedy::GiveUp),
            Code::NeverFits => row("never_fits", 422, 422, Remedy::Change),
            Code::QuotaSpent => row("quota_spent", 403, 429, Remedy::GiveUp),
            Code::QueueFull => row("queue_full", 503, 503, Remedy::ComeBack),
            Code::NoLimit => row("no_limit", 503, 503, Remedy::Change),
            Code::TooManyKeys => row("too_many_keys", 503, 503, Remedy::GiveUp),
            Code::UnknownResource => row("unknown_resource", 404, 503, Remedy::GiveUp),
            Code::UnknownPermit => row("unknown_permit", 404, 500, Remedy::Replace),
            Code::IdInUse => row("id_in_use", 409, 500, Remedy::Replace),
            Code::Lapsed => row("lapsed", 410, 500, Remedy::ReturnAndReplace),
            Code::AlreadySettled => row("already_settled", 409, 500, Remedy::Replace),
            Code::UnknownClass => row("unknown_class", 400, 500, Remedy::Change),
            Code::UnknownUnit => row("unknown_unit", 400, 500, Remedy::Change),
            Code::InvalidRequest => row("invalid_request", 400, 400, Remedy::Change),
            Code::Forbidden => row("forbidden", 403, 500, Remedy::GiveUp),
            Code::Purged => row("purged", 409, 503, Remedy::GiveUp),
            Code::Unavailable => row("unavailable", 503, 503, Remedy::Repeat),
            Code::Other => row("other", 500, 500, Remedy::GiveUp),
        }
    }
}

/// The properties of a code.
struct Row {
    text: &'static str,
    status: u16,
    as_server: u16,
    remedy: Remedy,
}

const fn row(text: &'static str, status: u16, as_server: u16, remedy: Remedy) -> Row {
    Row { text, status, as_server, remedy }
}

/// What a client does about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// It repeats the request under its id: another scheduler answers.
    Repeat,
    /// It gives the id back, and asks under a new one at the old age: the permit came too late.
    ReturnAndReplace,
    /// It asks under a new id at the old age: the id is used up, or belongs to another request.
    Replace,
    /// A client that is willing to wait repeats the request under its id after the stated time.
    ComeBack,
    /// It gives the request up. A request that is made later may be granted.
    GiveUp,
    /// It gives up this request and all like it: only a different request can be granted.
    Change,
}
