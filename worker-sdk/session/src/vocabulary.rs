//! All that can happen to a session, and all that it can want done.

use super::freeze::Freeze;
use rampmeter_protocol::answer::Granted;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::{Span, Time};

/// One request for a permit. The driver numbers them and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskNumber(pub u64);

/// One resource of a session. The driver numbers them from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceNumber(pub u32);

/// One message of requests; the last token of the subject that it is answered on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchNumber(pub u64);

/// What can happen.
#[derive(Debug)]
pub enum Event<'a> {
    /// The transport can publish (again).
    Connected,
    /// Whatever were published now might be delivered long after it has lost its sense.
    Disconnected,
    /// Somebody wants a permit.
    Asked {
        /// A new number.
        ask: AskNumber,
        /// Of this resource.
        resource: ResourceNumber,
        /// What to ask for; the session fills in `id`, `max_wait_ms` and `epoch`, and adds to `age_ms`, which is how long the
        /// permit has been wanted already.
        request: Box<PermitRequest<'static>>,
        /// When to give up; [`Time::NEVER`] for patience without end.
        deadline: Time,
    },
    /// Nobody wants this ask's permit any more, whether or not it has been granted meanwhile.
    Cancelled {
        /// The ask.
        ask: AskNumber,
        /// Of this resource.
        resource: ResourceNumber,
    },
    /// A call was made, or a permit is given back.
    Settled {
        /// The permit's resource.
        resource: ResourceNumber,
        /// What to tell the scheduler.
        settle: Settle<'static>,
    },
    /// A message on a reply subject. `now` is the time of its receipt.
    Answered {
        /// Of the reply subject.
        batch: BatchNumber,
        /// As received.
        payload: &'a [u8],
    },
    /// There was nobody to receive a batch, or it could not be sent.
    Undelivered {
        /// The batch.
        batch: BatchNumber,
    },
    /// A message on `rampmeter.event.<resource>`.
    News {
        /// The resource.
        resource: ResourceNumber,
        /// As received.
        payload: &'a [u8],
    },
    /// The client closes: who waits is told, what is unsettled is sent.
    Closed,
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// The transport publishes requests, to be answered under the number of the batch.
    Ask {
        /// Whose scheduler.
        resource: ResourceNumber,
        /// For the reply subject.
        batch: BatchNumber,
        /// One request or an array of them.
        payload: Vec<u8>,
    },
    /// The transport publishes settles.
    Settle {
        /// Whose scheduler.
        resource: ResourceNumber,
        /// One settle or an array of them.
        payload: Vec<u8>,
    },
    /// The transport publishes settles that renew what calls in flight hold, to be answered under the number of the batch.
    Renew {
        /// Whose scheduler.
        resource: ResourceNumber,
        /// For the reply subject.
        batch: BatchNumber,
        /// One settle or an array of them.
        payload: Vec<u8>,
    },
    /// The driver tells people: a call in flight could not be renewed, so that another may be in its place.
    Unrenewed {
        /// Whose limit.
        resource: ResourceNumber,
        /// The call's permit.
        id: PermitId,
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        message: Box<str>,
    },
    /// The driver tells the asker. Comes exactly once for an ask that is not cancelled.
    Complete {
        /// The ask.
        ask: AskNumber,
        /// The permit, or why there is none.
        result: Result<Grant, Denial>,
    },
    /// The driver tells the holders of reservations.
    Freeze {
        /// Whose reservations.
        resource: ResourceNumber,
        /// Which starts are void.
        freeze: Freeze,
    },
}

/// A permit, as granted.
#[derive(Debug, PartialEq)]
pub struct Grant {
    /// The request, with its id; without one if [`Grant::is_local`].
    pub request: Box<PermitRequest<'static>>,
    /// Since when it is wanted. Whoever gives the permit back and asks for it anew keeps its age by this.
    pub since: Time,
    /// When the answer came.
    pub received: Time,
    /// The call's start.
    pub start: Time,
    /// How long after its start the permit lapses; for ever good without it.
    pub valid: Option<Span>,
    /// What the scheduler says of it; the default if [`Grant::is_local`].
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
    /// Whether the session granted it itself, as nobody answered: no scheduler knows of it or wants to
    /// hear how it ended.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.request.id.is_none()
    }

    /// When the permit lapses, if it ever does: from then on it may not be used.
    #[must_use]
    pub fn lapses(&self) -> Option<Time> {
        self.valid.map(|valid| self.start + valid)
    }
}

/// Why there is no permit.
#[derive(Clone, Debug, PartialEq)]
pub enum Denial {
    /// The scheduler said no.
    Refused {
        /// For programs.
        code: Code,
        /// For people.
        message: Box<str>,
        /// When to come back, where that is of use.
        retry_after: Option<Span>,
        /// The limit in the way.
        limited_by: Option<Box<str>>,
    },
    /// The deadline came first.
    TimedOut {
        /// How long that took.
        waited: Span,
        /// The limit that held the request when the scheduler last spoke of it.
        limited_by: Option<Box<str>>,
        /// Whether a scheduler ever answered.
        heard: bool,
    },
    /// No scheduler answers; see [`Unreachable`](super::Unreachable).
    Unreachable {
        /// For how long.
        silence: Span,
        /// When to come back.
        retry_after: Span,
    },
    /// As many asks are pending as may be.
    TooManyAsks {
        /// How many.
        bound: usize,
    },
    /// The client was closed.
    Closed,
}
