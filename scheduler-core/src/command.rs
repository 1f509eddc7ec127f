//! All that the scheduler wants done.

use crate::ids::{ClassId, LimitId};
use crate::refusal::Refusal;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::Span;

/// What the driver has to do: it sends answers to `to`, and announcements to all clients. Notes are
/// for logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<R> {
    /// A permit.
    Grant(Grant<R>),
    /// How a waiting request stands; its answer is still to come.
    Queued {
        /// Where the update goes.
        to: R,
        /// The request.
        id: PermitId,
        /// How many requests are ahead of it.
        position: u64,
        /// How long until its start, as estimated.
        eta: Span,
        /// The limit that holds it.
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
    /// A settle was taken.
    Settled {
        /// Where the answer goes.
        to: R,
        /// The permit.
        id: PermitId,
        /// Whether the call goes on: the permit is still to be settled.
        extended: bool,
    },
    /// A settle was refused, as a whole or in a part. It is counted even without an address.
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

/// What people are told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A call was settled that took so long from its start.
    CallEnded(Span),
    /// Another capacity counts of this limit, by the upstream's word.
    CapacityChanged(LimitId),
    /// A limit was found that is not written.
    LimitFound {
        /// The limit.
        limit: LimitId,
        /// What it was found by.
        by: &'static str,
    },
}

/// Starts within this time from now are void.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreezeNotice {
    /// The frozen limits.
    pub limits: Vec<LimitId>,
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
    /// How long after that the permit lapses.
    pub validity: Span,
    /// How long the call counts as in flight unless it is settled or renewed, if a limit counts
    /// calls in flight.
    pub lease: Option<Span>,
    /// The limit that sets the delay.
    pub limited_by: Option<LimitId>,
    /// The class it was granted in.
    pub class: ClassId,
    /// How long the request waited in its queue.
    pub waited: Span,
    /// Whether this answer was given before: the permit is charged once.
    pub repeated: bool,
}
