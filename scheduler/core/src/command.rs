//! The output of the scheduler: what its driver has to do.

use rampmeter_policy::BucketName;
use rampmeter_policy::ids::{AccountId, ClassId, LimitId};
use rampmeter_policy::refusal::Refusal;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::Span;

/// What the driver has to do: send answers to `to`, announce freezes to all clients, and log notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<R> {
    /// A permit.
    Grant(Grant<R>),
    /// An update about a waiting request, whose answer follows later.
    Queued {
        /// Where the update goes.
        to: R,
        /// The request.
        id: PermitId,
        /// How many requests are ahead of this one.
        position: u64,
        /// How long until its start, as estimated.
        eta: Span,
        /// The limit that delays the request.
        limited_by: Option<LimitId>,
    },
    /// No permit.
    Refuse {
        /// Where the answer goes.
        to: R,
        /// The request.
        id: Option<PermitId>,
        /// Why.
        refusal: Refusal,
    },
    /// A settle was accepted.
    Settled {
        /// Where the answer goes.
        to: R,
        /// The permit.
        id: PermitId,
        /// Whether the call goes on, so that its permit still needs a settle.
        extended: bool,
    },
    /// A settle was refused, as a whole or in part. The driver counts it even without an address.
    RefuseSettle {
        /// Where the answer goes, if one is wanted.
        to: Option<R>,
        /// The permit.
        id: PermitId,
        /// Why.
        refusal: Refusal,
    },
    /// An announcement to all clients.
    Announce(FreezeNotice),
    /// A note for people.
    Note(Note),
}

/// News for logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A call was settled this long after its start.
    CallEnded(Span),
    /// The capacity in force of this limit has changed, as the upstream states it.
    CapacityChanged(LimitId),
    /// The upstream states a capacity of this limit that is not the written one and does not count.
    CapacityStated(LimitId, Amount),
    /// A response of the upstream has paused a limit.
    Paused(PauseNote),
}

/// The pause of a limit after a response of the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseNote {
    /// The paused bucket.
    pub bucket: BucketName,
    /// The pause that the response asks for, if any.
    pub asked: Option<Span>,
    /// The pause until a probe call asks the upstream again.
    pub span: Span,
    /// Whether no other limit is blamed.
    pub is_certain: bool,
}

/// Voids starts that need these buckets within `span` from now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreezeNotice {
    /// The frozen buckets.
    pub buckets: Vec<BucketName>,
    /// For how long.
    pub span: Span,
}

/// A granted permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant<R> {
    /// Where the answer goes.
    pub to: R,
    /// The permit.
    pub id: PermitId,
    /// How long from now until the start.
    pub delay: Span,
    /// How long after its start the permit lapses.
    pub validity: Span,
    /// If a limit counts calls in flight: how long the call counts unless it is settled or renewed.
    pub lease: Option<Span>,
    /// The limit that sets the delay.
    pub limited_by: Option<LimitId>,
    /// The buckets that the start is charged to, if it is beyond the horizon: a freeze may void it.
    pub charged: Vec<BucketName>,
    /// The class of the request.
    pub class: ClassId,
    /// How long the request waited in its queue.
    pub waited: Span,
    /// Whether the answer repeats an earlier one. The permit is charged once.
    pub repeated: bool,
    /// The account that makes the call, if the resource has accounts.
    pub account: Option<AccountId>,
    /// The way to make the call; 0 as the request describes it.
    pub way: u8,
}
