//! Reasons for refusals.

use serde::{Deserialize, Serialize};

/// The header with the HTTP status of a refusal's code.
pub const ERROR_CODE_HEADER: &str = "Nats-Service-Error-Code";
/// The header with a refusal's text.
pub const ERROR_HEADER: &str = "Nats-Service-Error";

crate::named! {
    /// The code of a refusal. `Nats-Service-Error-Code` contains its status, which codes may share.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Code {
        /// The request would wait longer than it may, and is not charged; or a call in flight was
        /// renewed too late, after its place had been promised to another.
        NotInTime = "not_in_time",
        /// The cost exceeds the capacity of a limit.
        NeverFits = "never_fits",
        /// The upstream's quota is used up. Asking again before its reset is useless.
        QuotaSpent = "quota_spent",
        /// A bound on the scheduler's memory is reached: on waiting requests, answers waiting for the store, remembered
        /// permits, purges, questions, or bodies to be priced. The message says which.
        QueueFull = "queue_full",
        /// No limit matches, and the resource has `unmatched = "refuse"`.
        NoLimit = "no_limit",
        /// The number of distinct bucket keys has reached its bound.
        TooManyKeys = "too_many_keys",
        /// No scheduler serves this resource.
        UnknownResource = "unknown_resource",
        /// The scheduler does not know this permit, or it was given back.
        UnknownPermit = "unknown_permit",
        /// The id belongs to another request, which waits or has an unsettled permit.
        IdInUse = "id_in_use",
        /// The permit's start has passed without a settle. A new id is charged again.
        Lapsed = "lapsed",
        /// The call of this permit was settled. Another call needs another id.
        AlreadySettled = "already_settled",
        /// The resource has no such class.
        UnknownClass = "unknown_class",
        /// No limit of the resource counts this unit, which is by default `requests`.
        UnknownUnit = "unknown_unit",
        /// The message violates the protocol.
        InvalidRequest = "invalid_request",
        /// The token may not use this resource, class or client.
        Forbidden = "forbidden",
        /// An operator ended the wait. The request is given up.
        Purged = "purged",
        /// The scheduler cannot grant now: it hands over, its store is silent, or limits have changed.
        /// Ask again under the same id after a short pause, even if `retry_after_ms` is 0.
        Unavailable = "unavailable",
        ;
        /// A code of a later version of the protocol.
        #[serde(other)]
        Other = "other",
    }
}

impl Code {
    /// Returns the HTTP status of the code.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.row().status
    }

    /// Returns the HTTP status with which a server without a permit answers: with 429 and 503 its caller has to come
    /// back later, with other 4xx to send another request; with 500 the server itself has misused permits.
    #[must_use]
    pub const fn as_server(self) -> u16 {
        self.row().as_server
    }

    /// Returns what a client should do about the refusal.
    #[must_use]
    pub const fn remedy(self) -> Remedy {
        self.row().remedy
    }

    const fn row(self) -> Row {
        match self {
            Code::NotInTime => row(429, 429, Remedy::GiveUp),
            Code::NeverFits => row(422, 422, Remedy::Change),
            Code::QuotaSpent => row(403, 429, Remedy::GiveUp),
            Code::QueueFull => row(503, 503, Remedy::ComeBack),
            Code::NoLimit => row(503, 503, Remedy::Change),
            Code::TooManyKeys => row(503, 503, Remedy::GiveUp),
            Code::UnknownResource => row(404, 503, Remedy::GiveUp),
            Code::UnknownPermit => row(404, 500, Remedy::Replace),
            Code::IdInUse => row(409, 500, Remedy::Replace),
            Code::Lapsed => row(410, 500, Remedy::ReturnAndReplace),
            Code::AlreadySettled => row(409, 500, Remedy::Replace),
            Code::UnknownClass => row(400, 500, Remedy::Change),
            Code::UnknownUnit => row(400, 500, Remedy::Change),
            Code::InvalidRequest => row(400, 400, Remedy::Change),
            Code::Forbidden => row(403, 500, Remedy::GiveUp),
            Code::Purged => row(409, 503, Remedy::GiveUp),
            Code::Unavailable => row(503, 503, Remedy::Repeat),
            Code::Other => row(500, 500, Remedy::GiveUp),
        }
    }
}

struct Row {
    status: u16,
    as_server: u16,
    remedy: Remedy,
}

const fn row(status: u16, as_server: u16, remedy: Remedy) -> Row {
    Row { status, as_server, remedy }
}

/// What a client should do about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Repeat the request under its id; another scheduler answers.
    Repeat,
    /// Give the id back and ask under a new one, with the old age: the permit came too late.
    ReturnAndReplace,
    /// Ask under a new id, with the old age: the id is used up, or belongs to another request.
    Replace,
    /// If the client is willing to wait, repeat the request under its id after the stated time.
    ComeBack,
    /// Give the request up. A later one may be granted.
    GiveUp,
    /// Give up this request and all like it: only a different request can be granted.
    Change,
}
