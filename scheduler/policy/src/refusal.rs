//! Refusals of permits.

use crate::ids::LimitId;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use std::fmt;

/// When to ask again after a bound was reached: long enough for some requests to be served.
const RETRY_AFTER_BOUND: Span = Span::from_secs(1);

/// Why a request is refused, with when to ask again, or that asking again is useless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The start would be later than the request allows. Nothing was charged.
    #[error("the earliest start is in {retry_after:.1}, which is later than the request allows")]
    NotInTime {
        /// How long until the earliest start.
        retry_after: Span,
        /// The limit that sets that start.
        limited_by: Option<LimitId>,
    },
    /// The start is farther ahead than starts may be reserved. Nothing was charged.
    #[error(
        "the earliest start is in {delay:.1}, and starts are reserved at most {bound} ahead (`max_ahead`); come back later, or wait in line (mode `wait`)"
    )]
    TooFarAhead {
        /// How long until the earliest start.
        delay: Span,
        /// How far ahead starts are reserved.
        bound: Span,
        /// The limit that sets the start.
        limited_by: Option<LimitId>,
    },
    /// The cost exceeds what the limit can ever hold.
    #[error("the cost of {cost} exceeds the limit's capacity of {capacity}; split the call")]
    NeverFits {
        /// The limit that is too small.
        limit: LimitId,
        /// The amount that the call would take from it.
        cost: Amount,
        /// The most that the limit can hold.
        capacity: Amount,
    },
    /// A quota is used up, by the scheduler's count or by the upstream's report.
    #[error("{}; it is reset {}", too_little(*left), retry_after.map_or("never".to_owned(), |span| format!("in {span:.1}")))]
    QuotaSpent {
        /// The spent quota that can pay the call last.
        limit: LimitId,
        /// What is left of it, which is less than the call may take.
        left: Amount,
        /// How long until the quota is reset, if it ever is.
        retry_after: Option<Span>,
    },
    /// A bound is reached.
    #[error("{what} the bound of {bound}; ask again later")]
    BoundReached {
        /// What has reached its bound.
        what: Bounded,
        /// The bound.
        bound: usize,
    },
    /// No limit applies to the request, and the resource refuses such requests.
    #[error("no limit is for a request with these labels; name the labels that the resource's limits match on")]
    NoLimit,
    /// All buckets for keys are in use.
    #[error("all {bound} buckets for keys are in use; a new key gets one when an old one is full again")]
    TooManyKeys {
        /// The limit whose key is new.
        limit: LimitId,
        /// The bound.
        bound: usize,
    },
    /// A call in flight, which still counts, was renewed after its place had been promised.
    #[error("the place of the call has been promised to another: renew it earlier, or give it a longer time to live")]
    RenewedTooLate,
    /// The permit is not known, or was given back.
    #[error("no such permit: it was never granted, was given back, or is too old")]
    UnknownPermit,
    /// The id belongs to another request that waits or has an unsettled permit.
    #[error(
        "another request has this id: it came from another user or `from`, or asked for another class, cost or labels; choose ids at random"
    )]
    IdInUse,
    /// The start is past: a call now would take stock that is promised to other calls.
    #[error("the permit's start is past; give it back if it was not used, and ask under a new id")]
    Lapsed,
    /// The call of the permit was settled: another call would be charged to no limit.
    #[error("the call of this permit was settled; ask under a new id")]
    AlreadySettled,
    /// No class has this name.
    #[error("`class`: no such class; there are {}", listed(known))]
    UnknownClass {
        /// The resource's classes.
        known: Vec<Name>,
    },
    /// The request names another class than the subject that it was sent to.
    #[error("`class`: this subject is for `{permitted}`; leave `class` out, or ask on the subject of the other class")]
    OtherClass {
        /// The class that the subject names.
        permitted: Name,
    },
    /// No account of the resource may make the call.
    #[error("`labels.account`, `not`: no account is left for this call; there are {}", listed(known))]
    NoAccount {
        /// The resource's accounts.
        known: Vec<Name>,
    },
    /// No limit counts this unit.
    #[error("`cost.{unit}`: no limit counts this unit; limits count {}", listed(known))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The units that the resource's limits count.
        known: Vec<Name>,
    },
    /// The request states no cost, and no limit counts the default.
    #[error(
        "no limit counts `{REQUESTS}`, of which a request without a `cost` takes one; state a `cost`: limits count {}",
        listed(known)
    )]
    Uncounted {
        /// The units that the resource's limits count.
        known: Vec<Name>,
    },
    /// A waiting request can be cancelled, but not used.
    #[error("`used`: the request still waits; only `false`, which cancels it, is possible")]
    StillWaiting,
    /// An operator has ended the wait.
    #[error("an operator has ended the wait; ask again only if the work is still wanted")]
    Purged,
    /// A waiting request was repeated by one that cannot wait.
    #[error("`mode`: the request with this id waits; ask with `wait`, or cancel it with `used: false`")]
    RepeatCannotWait,
    /// The scheduler is handing over.
    #[error("this scheduler is handing over; ask again at once")]
    HandingOver,
    /// The store has not confirmed a checkpoint that covers the grant.
    #[error("the store does not confirm grants at present; ask again")]
    StoreSilent,
    /// The limits have changed, and the labels of the call are not remembered.
    #[error("the limits have changed; ask again at once")]
    LimitsChanged,
    /// Some answers on the client's connection were not delivered, so the client may be gone.
    #[error("answers on this connection got lost; ask again under the same id")]
    MayBeGone,
}

/// A set that a bound limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounded {
    /// Waiting requests.
    Waiting,
    /// Waiting requests, of which the user, the client or a key of the request has its share.
    WaitingOfParty,
    /// Remembered permits.
    Remembered,
    /// Answers that wait for the store.
    Pending,
}

impl fmt::Display for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bounded::Waiting => "waiting requests are at",
            Bounded::WaitingOfParty => "waiting requests of this client, user or key are at its share of",
            Bounded::Remembered => "remembered permits are at",
            Bounded::Pending => "answers that wait for the store are at",
        })
    }
}

fn too_little(left: Amount) -> String {
    match left {
        Amount::ZERO => "the quota is spent".to_owned(),
        left => format!("the call may take more of the quota than the {left} that is left"),
    }
}

impl Refusal {
    /// Returns the protocol's code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.parts().0
    }

    /// Returns how long until the client should ask again; `None` if asking again is useless.
    #[must_use]
    pub fn retry_after(&self) -> Option<Span> {
        self.parts().1
    }

    /// Returns the limit that refuses the request.
    #[must_use]
    pub fn limited_by(&self) -> Option<LimitId> {
        self.parts().2
    }

    /// Returns the protocol's code, when to ask again, and the limit that refuses. A start beyond `max_wait` or
    /// `max_ahead` and a late renewal are all `not_in_time`; only asking for the renewal again is useless.
    fn parts(&self) -> (Code, Option<Span>, Option<LimitId>) {
        match *self {
            Refusal::NotInTime { retry_after, limited_by } => (Code::NotInTime, Some(retry_after), limited_by),
            Refusal::TooFarAhead { delay, bound, limited_by } => {
                (Code::NotInTime, Some(delay.saturating_sub(bound)), limited_by)
            }
            Refusal::NeverFits { limit, .. } => (Code::NeverFits, None, Some(limit)),
            Refusal::QuotaSpent { limit, retry_after, .. } => (Code::QuotaSpent, retry_after, Some(limit)),
            Refusal::BoundReached { .. } => (Code::QueueFull, Some(RETRY_AFTER_BOUND), None),
            Refusal::NoLimit => (Code::NoLimit, None, None),
            Refusal::TooManyKeys { limit, .. } => (Code::TooManyKeys, Some(RETRY_AFTER_BOUND), Some(limit)),
            Refusal::RenewedTooLate => (Code::NotInTime, None, None),
            Refusal::UnknownPermit => (Code::UnknownPermit, None, None),
            Refusal::IdInUse => (Code::IdInUse, None, None),
            Refusal::Lapsed => (Code::Lapsed, None, None),
            Refusal::AlreadySettled => (Code::AlreadySettled, None, None),
            Refusal::UnknownClass { .. } => (Code::UnknownClass, None, None),
            Refusal::UnknownUnit { .. } | Refusal::Uncounted { .. } => (Code::UnknownUnit, None, None),
            Refusal::StillWaiting
            | Refusal::RepeatCannotWait
            | Refusal::OtherClass { .. }
            | Refusal::NoAccount { .. } => (Code::InvalidRequest, None, None),
            Refusal::Purged => (Code::Purged, None, None),
            Refusal::HandingOver | Refusal::StoreSilent | Refusal::LimitsChanged | Refusal::MayBeGone => {
                (Code::Unavailable, Some(Span::ZERO), None)
            }
        }
    }
}

fn listed(names: &[Name]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
