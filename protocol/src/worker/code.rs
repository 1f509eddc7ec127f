//! Why a request was refused.

use serde::{Deserialize, Serialize};

/// The header of a refusal with the status of its code.
pub const ERROR_CODE_HEADER: &str = "Nats-Service-Error-Code";
/// The header of a refusal with its text.
pub const ERROR_HEADER: &str = "Nats-Service-Error";

crate::named! {
    /// The code of a refusal. Each stands for one status in the header `Nats-Service-Error-Code`;
    /// several codes share a status.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Code {
        /// The request would have to wait longer than it may, and is charged nothing. Or a call in
        /// flight was renewed after its place had been promised to another call.
        NotInTime = "not_in_time",
        /// The cost exceeds what a limit can ever hold.
        NeverFits = "never_fits",
        /// A quota of the upstream is used up. Asking again before its reset is useless.
        QuotaSpent = "quota_spent",
        /// A bound of the scheduler's memory is reached: waiting requests, answers that wait for the
        /// store, remembered permits, purges, questions or bodies to be priced. The message names it.
        QueueFull = "queue_full",
        /// No limit matches, and the resource says `unmatched = "refuse"`.
        NoLimit = "no_limit",
        /// The number of distinct bucket keys has reached its bound.
        TooManyKeys = "too_many_keys",
        /// No scheduler serves this resource.
        UnknownResource = "unknown_resource",
        /// The scheduler does not know this permit, or the permit was given back.
        UnknownPermit = "unknown_permit",
        /// The id belongs to another request, which waits or has a permit that is not settled.
        IdInUse = "id_in_use",
        /// The permit's start is past, and no settle reported a call. Asking under a new id is charged
        /// again.
        Lapsed = "lapsed",
        /// The call of this permit was settled. Another call needs another id.
        AlreadySettled = "already_settled",
        /// The resource has no such class.
        UnknownClass = "unknown_class",
        /// No limit of the resource counts this unit. The unit is `requests` if no cost is stated.
        UnknownUnit = "unknown_unit",
        /// The message does not follow the protocol.
        InvalidRequest = "invalid_request",
        /// The token may not name this resource, class or client.
        Forbidden = "forbidden",
        /// An operator ended the wait. The request is given up.
        Purged = "purged",
        /// The scheduler cannot answer now: it hands over, its store is silent, or limits have changed.
        /// Ask again at once.
        Unavailable = "unavailable",
        ;
        /// A code of a later version of the protocol.
        #[serde(other)]
        Other = "other",
    }
}

impl Code {
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

    /// What a client does about the refusal.
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

/// The properties of a code.
struct Row {
    status: u16,
    as_server: u16,
    remedy: Remedy,
}

const fn row(status: u16, as_server: u16, remedy: Remedy) -> Row {
    Row { status, as_server, remedy }
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
