//! One permit, from its request to its end.

use crate::adaptation::{Observation, ObservedCall};
use crate::identity::Identity;
use crate::ids::{ClassId, LimitId};
use crate::limits::StartKey;
use crate::policy::Bill;
use crate::queue::Waiting;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::Time;
use std::sync::Arc;

/// A request that waits, or was granted or given back. There may be a million, so it is kept small.
#[derive(Clone, Debug)]
pub(crate) struct Permit<R> {
    pub(crate) id: PermitId,
    pub(crate) bill: Arc<Bill>,
    /// The sender and the content, as hashes, if they are known.
    pub(crate) identity: Identity,
    pub(crate) state: State<R>,
}

impl<R> Permit<R> {
    pub(crate) fn granted(&self) -> Option<Granted> {
        match self.state {
            State::Granted(granted) => Some(granted),
            State::Waiting(_) | State::Returned => None,
        }
    }

    /// The call of an open permit with its answer.
    pub(crate) fn answered<'a>(&'a self, now: Time, observation: &'a Observation) -> Option<ObservedCall<'a>> {
        let Granted { start, .. } = self.granted().filter(Granted::is_open)?;
        Some(ObservedCall { now, start, user: self.identity.user(), bill: &self.bill, observation })
    }

    pub(crate) fn as_waiting(&self) -> Option<&Waiting<R>> {
        match &self.state {
            State::Waiting(waiting) => Some(waiting),
            State::Granted(_) | State::Returned => None,
        }
    }

    pub(crate) fn waiting(&self) -> &Waiting<R> {
        self.as_waiting().expect("a request in a queue waits")
    }

    pub(crate) fn waiting_mut(&mut self) -> &mut Waiting<R> {
        let State::Waiting(waiting) = &mut self.state else { unreachable!("a request in a queue waits") };
        waiting
    }

    /// Takes the identity from the first repetition of a former leader's request.
    pub(crate) fn learn_identity(&mut self, identity: Identity) {
        if self.identity == Identity::default() {
            self.identity = identity;
        }
    }

    /// Ends the wait of a waiting request.
    pub(crate) fn stop_waiting(&mut self) -> Waiting<R> {
        let State::Waiting(waiting) = std::mem::replace(&mut self.state, State::Returned) else {
            unreachable!("a request in a queue waits")
        };
        *waiting
    }
}

#[derive(Clone, Debug)]
pub(crate) enum State<R> {
    /// In a queue, and charged nothing.
    Waiting(Box<Waiting<R>>),
    /// Committed to a start, and charged.
    Granted(Granted),
    /// Given back or cancelled. It is remembered, so that a late duplicate of its request is not
    /// charged.
    Returned,
}

/// A committed start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) start: StartKey,
    pub(crate) limited_by: Option<LimitId>,
    pub(crate) class: ClassId,
    pub(crate) stage: Stage,
    /// The first whole second after its start and its leases, once it is listed.
    pub(super) end: u32,
}

/// Whether the client may know of a start, and the state of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The start was not sent to the client.
    Promised,
    /// The start was sent, or is sent with this event.
    Sent,
    /// A predecessor has granted the call, and its renewal had it counted again.
    Inherited,
    /// The call was settled.
    Settled,
}

impl Granted {
    pub(crate) fn new(start: StartKey, limited_by: Option<LimitId>, class: ClassId, stage: Stage) -> Self {
        Granted { start, limited_by, class, stage, end: 0 }
    }

    pub(crate) fn in_stage(self, stage: Stage) -> Self {
        Granted { stage, ..self }
    }

    /// The same grant with another start.
    pub(crate) fn moved_to(self, start: StartKey) -> Self {
        Granted { start, ..self }
    }

    /// Whether the call was not settled yet.
    pub(crate) fn is_open(&self) -> bool {
        self.stage != Stage::Settled
    }

    pub(crate) fn is_promised(&self, now: Time) -> bool {
        self.start.at > now
    }
}
