//! All events and all commands of a session.

use super::freeze::Freeze;
use rampmeter_protocol::answer::Granted;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::{Span, Time};

/// One request for a permit. The driver numbers requests and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskNumber(pub u64);

/// One resource of a session. The driver numbers them from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceNumber(pub u32);

/// One message of requests. It is the last token of the subject that answers arrive on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchNumber(pub u64);

/// An event.
#[derive(Debug)]
pub enum Event<'a> {
    /// The transport can publish (again).
    Connected,
    /// A message that is published now might be delivered when it is useless.
    Disconnected,
    /// A caller requests a permit.
    Asked {
        /// A new number.
        ask: AskNumber,
        /// Its resource.
        resource: ResourceNumber,
        /// The request. The session fills in `id`, `max_wait_ms` and `epoch`. It adds its own wait
        /// to `age_ms`, the time that the permit has already been wanted.
        request: Box<PermitRequest<'static>>,
        /// When to give up; [`Time::NEVER`] for no deadline.
        deadline: Time,
    },
    /// The caller no longer wants this permit, whether or not it has been granted meanwhile.
    Cancelled {
        /// The ask.
        ask: AskNumber,
        /// Its resource.
        resource: ResourceNumber,
    },
    /// A call was made, or a permit is given back.
    Settled {
        /// The permit's resource.
        resource: ResourceNumber,
        /// The report for the scheduler.
        settle: Settle<'static>,
    },
    /// A message on a reply subject. Its time is the time of its receipt.
    Answered {
        /// The batch of the reply subject.
        batch: BatchNumber,
        /// The payload as received.
        payload: &'a [u8],
    },
    /// No scheduler received a batch, or it could not be sent.
    Undelivered {
        /// The batch.
        batch: BatchNumber,
    },
    /// A message on `rampmeter.event.<resource>`.
    News {
        /// The resource.
        resource: ResourceNumber,
        /// The payload as received.
        payload: &'a [u8],
        /// The wall clock at the receipt, in milliseconds since 1970. An event with an epoch far
        /// beyond it is not believed.
        unix_ms: u64,
    },
    /// The client closes. Callers are told, and unsettled permits are settled.
    Closed,
}

/// A command.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// The transport publishes requests. The number of the batch goes into the reply subject.
    Ask {
        /// The resource.
        resource: ResourceNumber,
        /// The class for the subject: that of all these requests. Nothing if they have none, or if
        /// subjects name no classes.
        class: Option<Text<'static>>,
        /// The batch, for the reply subject.
        batch: BatchNumber,
        /// One request or an array of them.
        payload: Vec<u8>,
    },
    /// The transport publishes settles.
    Settle {
        /// The resource.
        resource: ResourceNumber,
        /// One settle or an array of them.
        payload: Vec<u8>,
    },
    /// The transport publishes settles that renew leases. The number of the batch goes into the
    /// reply subject.
    Renew {
        /// The resource.
        resource: ResourceNumber,
        /// The batch, for the reply subject.
        batch: BatchNumber,
        /// One settle or an array of them.
        payload: Vec<u8>,
    },
    /// The driver reports to people that a lease was not renewed, so that another call may be in
    /// its place.
    Unrenewed {
        /// The resource.
        resource: ResourceNumber,
        /// The call's permit.
        id: PermitId,
        /// The reason, for programs.
        code: Code,
        /// The reason, for people.
        message: Box<str>,
    },
    /// The driver reports to people that no scheduler of the resource answers, and again every
    /// minute. It comes only if the session [reports silence](super::Session::reporting_silence).
    Silent {
        /// The resource.
        resource: ResourceNumber,
        /// How long an answer has been owed.
        silence: Span,
    },
    /// The driver reports to people that a scheduler answers again after such a silence.
    Heard {
        /// The resource.
        resource: ResourceNumber,
    },
    /// The driver answers the caller. It comes exactly once for an ask that is not cancelled.
    Complete {
        /// The ask.
        ask: AskNumber,
        /// The permit, or why there is none.
        result: Result<Grant, Denial>,
    },
    /// The driver tells all holders of permits.
    Freeze {
        /// The resource of the permits.
        resource: ResourceNumber,
        /// Which starts are void.
        freeze: Freeze,
    },
}

/// A permit, as granted.
#[derive(Debug, PartialEq)]
pub struct Grant {
    /// The request, with its id; without an id if [`Grant::is_local`].
    pub request: Box<PermitRequest<'static>>,
    /// Since when the permit is wanted. A caller that returns the permit and asks again keeps its
    /// age by this.
    pub since: Time,
    /// When the answer was received.
    pub received: Time,
    /// The call's start.
    pub start: Time,
    /// How long the permit is valid after its start; without it the permit never lapses.
    pub valid: Option<Span>,
    /// The scheduler's answer; the default if [`Grant::is_local`].
    pub answer: Granted<'static>,
}

impl Grant {
    /// Whether `freeze` makes its start void.
    #[must_use]
    pub fn is_voided_by(&self, freeze: Freeze) -> bool {
        (freeze.seen..freeze.until).contains(&self.start) && self.received <= freeze.seen
    }
}

impl Grant {
    /// Whether the session granted it itself because no scheduler answered. No scheduler knows this
    /// permit, and its end is not reported.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.request.id.is_none()
    }

    /// When the permit lapses, if it does. From then on it may not be used.
    #[must_use]
    pub fn lapses(&self) -> Option<Time> {
        self.valid.map(|valid| self.start + valid)
    }
}

/// Why there is no permit.
#[derive(Clone, Debug, PartialEq)]
pub enum Denial {
    /// The scheduler refused the request.
    Refused {
        /// The reason, for programs.
        code: Code,
        /// The reason, for people.
        message: Box<str>,
        /// When to ask again, if that is of use.
        retry_after: Option<Span>,
        /// The limit in the way.
        limited_by: Option<Box<str>>,
    },
    /// The deadline came first.
    TimedOut {
        /// How long the request waited.
        waited: Span,
        /// The limit that delayed the request when the scheduler last reported on it.
        limited_by: Option<Box<str>>,
        /// Whether a scheduler ever answered.
        answered: bool,
    },
    /// No scheduler answers; see [`Unreachable`](super::Unreachable).
    Unreachable {
        /// How long no scheduler has answered.
        silence: Span,
        /// When to ask again.
        retry_after: Span,
    },
    /// The number of pending asks has reached its bound.
    TooManyAsks {
        /// The bound.
        bound: usize,
    },
    /// The client was closed.
    Closed,
}
