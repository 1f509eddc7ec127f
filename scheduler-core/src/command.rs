//! All that a scheduler wants done.

use crate::ids::{ClassId, LimitId};
use crate::refusal::Refusal;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::Span;

/// What the driver has to do: answers are sent to `to`, announcements to everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<R> {
    /// A permit.
    Grant(Grant<R>),
    /// How a waiting request stands; the answer is still to come.
    Queued {
        /// Who.
        to: R,
        /// The request.
        id: PermitId,
        /// How many are ahead of it.
        position: u64,
        /// When it will probably start.
        eta: Span,
        /// The limit that holds it.
        limited_by: Option<LimitId>,
    },
    /// No permit.
    Refuse {
        /// Who.
        to: R,
        /// The request.
        id: Option<PermitId>,
        /// Why.
        refusal: Refusal,
    },
    /// A settle was taken.
    Settled {
        /// Who.
        to: R,
        /// The permit.
        id: PermitId,
    },
    /// News for all clients of the resource.
    Announce(Announcement),
}

/// What everybody is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// Starts within this time from now are void.
    Freeze {
        /// The limits that are frozen.
        limits: Vec<LimitId>,
        /// For how long.
        span: Span,
    },
}

/// A granted permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant<R> {
    /// Who.
    pub to: R,
    /// The permit.
    pub id: PermitId,
    /// How long from now until the start.
    pub delay: Span,
    /// How long after that the permit lapses.
    pub validity: Span,
    /// How long the call counts as in flight if nobody hears of it, where a limit counts such.
    pub lease: Option<Span>,
    /// The limit that sets the delay.
    pub limited_by: Option<LimitId>,
    /// The class it was granted in.
    pub class: ClassId,
    /// How long the request waited in line.
    pub waited: Span,
    /// Whether this answer was given before: the permit is charged once.
    pub repeated: bool,
}
