//! The events of a session, and the numbers in them.

use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::Time;

/// An event that the driver passes to the session.
#[derive(Debug)]
pub enum Event<'a> {
    /// The transport can publish (again).
    Connected,
    /// The transport cannot publish: messages might be delivered when they are useless.
    Disconnected,
    /// A caller requests a permit.
    Asked {
        /// A new number.
        ask: AskNumber,
        /// Its resource.
        resource: ResourceNumber,
        /// The request. The session fills in `id`, `max_wait_ms` and `epoch`, and adds its own wait to `age_ms`, how
        /// long the permit has been wanted. Only a [relay](super::Session::relaying) keeps an existing id.
        request: Box<PermitRequest<'static>>,
        /// When to give up; [`Time::NEVER`] for no deadline.
        deadline: Time,
    },
    /// The caller no longer wants this permit, even if it has been granted meanwhile.
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
        settle: Box<Settle<'static>>,
    },
    /// A message arrived on a reply subject. The event's time is that of its receipt.
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
    /// A message arrived on `rampmeter.event.<resource>`.
    News {
        /// The resource of the subject.
        resource: ResourceNumber,
        /// The payload as received.
        payload: &'a [u8],
        /// The wall clock at receipt, in ms since 1970; epochs far beyond it are not believed.
        unix_ms: u64,
    },
    /// The client closes. Callers are notified, and outstanding settles are sent.
    Closed,
}

/// A request for a permit. The driver numbers requests and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskNumber(pub u64);

/// A resource of a session. The driver numbers them from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceNumber(pub u32);

/// The number of a message, the last token of its answers' subject. Messages of settles count down from the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchNumber(pub u64);

impl BatchNumber {
    pub(crate) fn of_settles(number: u64) -> Self {
        BatchNumber(u64::MAX - number)
    }

    pub(crate) fn is_of_settles(self) -> bool {
        self.0 > u64::MAX / 2
    }
}
