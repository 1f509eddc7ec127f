//! All that can happen to a resource.

use crate::adaptation::Observation;
use crate::ids::{CheckpointNumber, ClassId, LimitId};
use crate::policy::{Bill, Call, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

/// What the driver tells the scheduler. `R` is where an answer goes; the core carries it and
/// never looks at it.
#[derive(Clone, Debug)]
pub enum Event<R> {
    /// A worker asks for a permit.
    Ask(Ask<R>),
    /// A worker tells how a call went.
    Settle(Settle<R>),
    /// The time of [`Scheduler::next_wakeup`](crate::scheduler::Scheduler::next_wakeup) has come.
    Wake,
    /// The store holds this checkpoint.
    CheckpointStored(CheckpointNumber),
    /// The store does not take checkpoints.
    StoreLost,
    /// Somebody else may lead by now, as after a standstill: nothing is granted until the store holds a checkpoint that is taken from
    /// now on.
    Doubt,
    /// All answers that were given until then have come through in time.
    Delivered(Time),
    /// Answers do not come through: until [`Event::Delivered`] says that they do again, nothing is granted to those who wait, and what
    /// was granted since the last one that did counts as if it were granted now. To be repeated while it lasts.
    HeldUp,
    /// There are other limits from now on; all else of the resource stays as it is.
    Limits(Box<Resource>),
    /// The upstream was asked for its levels.
    Levels {
        /// When it was asked.
        asked: Time,
        /// When it had answered.
        heard: Time,
        /// What it said, by limit.
        levels: Vec<(LimitId, Amount)>,
    },
    /// What was restored is not the latest that was ever written: somebody has led since, in epochs below this one.
    StoreWentBack {
        /// The epoch from now on.
        epoch: u64,
    },
    /// What was last said to the request of this id has reached no client.
    Undelivered(PermitId),
    /// The wall clock turns out to have shown something else at the origin of time: it was set, or time has passed that nobody noticed.
    WallClock {
        /// In nanoseconds since 1970.
        unix_at_origin: u64,
    },
    /// This scheduler gives the resource up: nothing is granted from now on.
    HandOver,
}

/// A request for a permit, resolved against the resource.
#[derive(Clone, Debug)]
pub struct Ask<R> {
    /// Where the answer goes.
    pub to: R,
    /// Names the permit; made up where there is none.
    pub id: Option<PermitId>,
    /// What the call takes from each bucket.
    pub bill: Bill,
    /// Priority class.
    pub class: ClassId,
    /// How to answer.
    pub mode: Mode,
    /// Longest time from now to the start.
    pub max_wait: Option<Span>,
    /// How long the request has waited already, elsewhere.
    pub age: Span,
    /// Whether it wants to be told how it stands while it waits.
    pub progress: bool,
    /// With whom it shares what its class gets: the value of the label that the resource shares by. Those without one
    /// are one client together.
    pub client: Option<Arc<str>>,
    /// What the call is for, so that it can be charged under other limits while it waits. Without it, it is charged as a call without
    /// labels then.
    pub call: Option<Box<Call>>,
}

/// How the call of a permit went.
#[derive(Clone, Debug)]
pub struct Settle<R> {
    /// Where the answer goes, if one is wanted.
    pub to: Option<R>,
    /// The permit.
    pub id: PermitId,
    /// What happened to it.
    pub outcome: Outcome,
    /// What the upstream's answer tells of its buckets, if there was an answer and it is understood.
    pub observation: Option<Observation>,
}

/// What became of a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call was not made: the permit is given back, or the waiting request cancelled.
    Unused,
    /// The call was made and cost this, where it differs from the estimate, by unit.
    Used(Vec<(String, Amount)>),
    /// The call is still in flight; with what it takes, where a scheduler that has never heard of it is to count it anew.
    Extend(Option<Box<Bill>>),
}
