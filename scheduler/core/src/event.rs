//! The input of the scheduler: what its driver hands it.

use crate::checkpoint_number::CheckpointNumber;
use crate::identity::Identity;
use rampmeter_policy::ids::{ClassId, LimitId};
use rampmeter_policy::observation::Observation;
use rampmeter_policy::{Bill, Call, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;
use std::sync::Arc;

/// An input. `R` is the address of an answer, which the core carries and never looks at.
#[derive(Clone, Debug)]
pub enum Event<R> {
    // From clients.
    /// A client asks for a permit.
    Ask(Ask<R>),
    /// A client reports how a call went.
    Settle(Settle<R>),
    /// A client names an epoch above this scheduler's. The next checkpoint is due soon: if the
    /// store takes it, this scheduler still leads.
    HigherEpochNamed,

    // From the clock.
    /// The time of [`Scheduler::next_wakeup`](crate::scheduler::Scheduler::next_wakeup) has come.
    Wake,
    /// The wall clock was corrected: it was set, or the machine was suspended.
    WallClock(WallClockOrigin),

    // From the delivery of answers.
    /// Answers arrive in time.
    Delivered,
    /// Answers do not arrive, and clients return permits that come late. Waiting requests are
    /// granted nothing until the next [`Event::Delivered`].
    AnswersLate,
    /// An answer to this request or permit has reached no client.
    Undelivered {
        /// The request or permit.
        id: PermitId,
        /// Whether the answer was its grant, and not an update while it waited.
        is_grant: bool,
    },

    // From the store and the leadership.
    /// The store holds this checkpoint.
    CheckpointStored(CheckpointNumber),
    /// Every standby that the store's record lists holds this checkpoint while the store is silent.
    /// Any successor therefore goes on from it or from a later one.
    CheckpointWitnessed(CheckpointNumber),
    /// The store has refused this checkpoint for its size. The next is due soon, half as large.
    CheckpointRefused(CheckpointNumber),
    /// The store is new and holds no earlier epoch. Clients know leaders with epochs below `epoch`.
    StoreReplaced {
        /// The epoch from now on.
        epoch: Epoch,
    },
    /// The store confirms that this scheduler leads, and holds this epoch, which is above every
    /// epoch that clients have named.
    EpochConfirmed(Epoch),
    /// Another scheduler may lead by now, for example after this process stood still. Nothing is
    /// granted until a checkpoint taken after this event is stored or witnessed.
    Doubt,
    /// This scheduler hands the resource over: nothing is granted from now on, and this event and
    /// the following wake-ups refuse all waiting requests.
    HandOver,

    // From the upstream.
    /// The upstream has reported its levels.
    Levels {
        /// When it was asked.
        asked: Time,
        /// When its answer came.
        answered: Time,
        /// The remaining amount of each limit.
        levels: Vec<(LimitId, Amount)>,
    },

    // From the discovery of limits.
    /// Like [`Event::Limits`], for limits some of which were discovered.
    Discovered {
        /// The resource with these limits.
        resource: Box<Resource>,
        /// The amounts left of limits, by name, with which new limits without keys begin.
        left: Vec<(Name, Amount)>,
    },
    /// This capacity of a [steered](rampmeter_policy::spec::Learn::Steered) limit is in force.
    Capacity {
        /// A limit whose capacity the driver computes.
        limit: LimitId,
        /// The capacity from now on.
        capacity: Amount,
    },

    // From operators.
    /// The resource has other limits, which charge waiting requests, too. All else stays.
    Limits(Box<Resource>),
    /// The freezes of these limits end, and quotas that the upstream declared spent are unspent.
    Thaw(Vec<LimitId>),
    /// These limits, which have no keys, are frozen for at least this long.
    Freeze {
        /// The limits.
        limits: Vec<LimitId>,
        /// How long calls that need these limits may not start.
        span: Span,
    },
    /// The whole stock of these limits is taken.
    Empty(Vec<LimitId>),
}

/// A request for a permit, resolved against the resource.
#[derive(Clone, Debug)]
pub struct Ask<R> {
    /// Where the answer goes.
    pub to: R,
    /// The permit's id. The driver draws one for a request without an id: an id is a secret, and the
    /// core has no random numbers, only a random seed for hashes.
    pub id: PermitId,
    /// Hashes of sender and content. A repeated request under this id must agree in each part that
    /// both state.
    pub identity: Identity,
    /// The amounts that the call takes from each bucket.
    pub bill: Bill,
    /// Priority class.
    pub class: ClassId,
    /// How to answer.
    pub mode: Mode,
    /// Longest time from now to the start.
    pub max_wait: Option<Span>,
    /// How long the request has waited already: at its client, at other schedulers, or before a call
    /// that was answered 429.
    pub age: Span,
    /// Whether the client wants updates while the request waits.
    pub progress: bool,
    /// The client for the fair share: the value of the resource's fair-share label. All requests
    /// without this label count as one client.
    pub client: Option<Arc<str>>,
    /// The name under which its use is counted, if it is another than `client`.
    pub counted_for: Option<Arc<str>>,
    /// The labels and cost of the call, by which a waiting request is charged if the limits change.
    /// Without them, it is charged as a call without labels.
    pub call: Option<Box<Call>>,
}

impl<R> Ask<R> {
    /// Creates a request without age, longest wait, updates, and known user and client.
    #[must_use]
    pub fn new(to: R, id: PermitId, bill: Bill, class: ClassId, mode: Mode) -> Self {
        let (identity, age) = (Identity::default(), Span::ZERO);
        let (max_wait, progress, client, counted_for, call) = (None, false, None, None, None);
        Ask { to, id, identity, bill, class, mode, max_wait, age, progress, client, counted_for, call }
    }

    /// Makes it a request for this alternative alone, if its bill has alternatives.
    #[must_use]
    pub(crate) fn taking(self, alternative: Option<Arc<Bill>>) -> Self {
        let chosen = alternative.map(|bill| (*bill).clone().of_client(self.bill.client));
        Ask { bill: chosen.unwrap_or(self.bill), ..self }
    }
}

/// How the call of a permit went.
#[derive(Clone, Debug)]
pub struct Settle<R> {
    /// Where the answer goes, if one is wanted.
    pub to: Option<R>,
    /// The permit.
    pub id: PermitId,
    /// The outcome of its call.
    pub outcome: Outcome,
    /// The upstream's report on its buckets, if it answered and its dialect is known.
    pub observation: Option<Observation>,
    /// Whether the upstream answered the call with 429.
    pub is_throttled: bool,
    /// The bill of the call, by which a scheduler without the permit counts or ends it.
    pub call: Option<Box<Bill>>,
}

/// The outcome of a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call was not made: the permit is given back, or the waiting request cancelled.
    Unused,
    /// The call was made. These are its costs, by unit, that differ from the estimate.
    Used(Vec<(String, Amount)>),
    /// The call is still in flight.
    Extend,
}
