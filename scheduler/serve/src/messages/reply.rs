//! Where the answer to one element of a message goes.

use crate::messages::array::ArrayPlace;
use crate::messages::inbound::Address;
use crate::messages::request_trace::RequestTrace;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::id::PermitId;
use std::sync::Arc;

/// Where the answer to one element of a message goes, and what it is to say. The core carries it
/// along.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    pub(crate) envelope: Envelope,
    /// Whether a permit says what is left of its limits.
    pub(crate) tells_left: bool,
    /// What a permit says that the call costs, if that was computed.
    pub(crate) cost: Option<Arc<Cost<'static>>>,
    /// The span that the answer ends.
    pub(crate) trace: Option<Arc<RequestTrace>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Envelope {
    /// A message of its own.
    Alone(Address),
    /// An array of answers.
    InArray(ArrayPlace),
}

impl ReplyTo {
    pub(crate) fn new(envelope: Envelope) -> Self {
        ReplyTo { envelope, tells_left: false, cost: None, trace: None }
    }

    /// A message of its own.
    pub fn alone(to: Address) -> Self {
        ReplyTo::new(Envelope::Alone(to))
    }

    /// The subject that the answer goes to, if it goes there alone.
    pub(crate) fn inbox(&self) -> Option<&str> {
        match &self.envelope {
            Envelope::Alone(Address::Subject(inbox)) => Some(inbox),
            Envelope::Alone(Address::Here(..)) | Envelope::InArray(_) => None,
        }
    }
}

/// The request that has waited for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) id: PermitId,
    /// Whether the answer is its grant, and not an update.
    pub(crate) is_grant: bool,
}
