//! The commands of a session to its driver.

use super::event::{AskNumber, BatchNumber, ResourceNumber};
use super::freeze::{Freeze, Freezes};
use rampmeter_protocol::answer::{Granted, Refused};
use rampmeter_protocol::code::Code;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::ACCOUNT;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Asked;
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::trace_context::TraceContexts;

/// A command of the session to its driver.
#[expect(clippy::large_enum_variant, reason = "most commands are grants, which have to be moved anyway")]
#[derive(Debug, PartialEq)]
pub enum Command {
    /// Publish requests. The number of the batch goes into the reply subject.
    Ask {
        /// The resource whose permits are requested.
        resource: ResourceNumber,
        /// The class for the subject, that of all these requests; `None` if the subject has none.
        class: Option<Text<'static>>,
        /// The batch, for the reply subject.
        batch: BatchNumber,
        /// One request or an array of them.
        payload: Vec<u8>,
        /// The spans in which the permits are requested, for the headers.
        traces: TraceContexts,
    },
    /// Publish settles. The reply subject contains the batch; schedulers confirm the receipt there.
    Settle {
        /// The resource whose permits are settled.
        resource: ResourceNumber,
        /// The batch, for the reply subject.
        batch: BatchNumber,
        /// One settle or an array of them.
        payload: Vec<u8>,
        /// The spans in which the permits were requested, for the headers.
        traces: TraceContexts,
    },
    /// Publish settles that renew leases. The number of the batch goes into the reply subject.
    Renew {
        /// The resource whose leases are renewed.
        resource: ResourceNumber,
        /// The batch, for the reply subject.
        batch: BatchNumber,
        /// One settle or an array of them.
        payload: Vec<u8>,
    },
    /// Report to people that a lease was not renewed, so that another call may have its place.
    Unrenewed {
        /// The resource of the permit.
        resource: ResourceNumber,
        /// The call's permit.
        id: PermitId,
        /// The reason, for programs.
        code: Code,
        /// The reason, for people.
        message: Box<str>,
    },
    /// Report to people that no scheduler of the resource answers, repeated every minute. Only if
    /// the session [reports silence](super::SessionOptions::reports_silence).
    Silent {
        /// The resource whose schedulers are silent.
        resource: ResourceNumber,
        /// How long an answer has been owed.
        silence: Span,
    },
    /// Report to people that a scheduler answers again after such a silence.
    SilenceOver {
        /// The resource whose scheduler answers again.
        resource: ResourceNumber,
    },
    /// Answer the caller, exactly once for an ask that is not cancelled.
    Complete {
        /// The ask.
        ask: AskNumber,
        /// The permit, or why there is none.
        result: Result<Grant, Denial>,
    },
    /// Notify all holders of the resource's permits.
    Freeze {
        /// The resource of the permits.
        resource: ResourceNumber,
        /// The starts that are void.
        freeze: Freeze,
    },
}

/// A granted permit.
#[derive(Debug, PartialEq)]
pub struct Grant {
    /// The request, with its id; without an id if [`Grant::is_local`].
    pub request: Box<PermitRequest<'static>>,
    /// Since when the permit is wanted: a caller that returns it and asks again keeps its age.
    pub since: Time,
    /// When the answer was received.
    pub received: Time,
    /// The call's start.
    pub start: Time,
    /// How much later than intended the start is because the answer was late, if known.
    pub late: Option<Span>,
    /// How long the permit is valid after its start; `None` if it never lapses.
    pub valid: Option<Span>,
    /// The scheduler's answer; the default if [`Grant::is_local`].
    pub answer: Granted<'static>,
}

impl Freezes {
    /// Returns whether one of the freezes voids the start of `grant`.
    #[must_use]
    pub fn void(&self, grant: &Grant) -> bool {
        self.0.iter().any(|freeze| grant.is_voided_by(freeze))
    }
}

impl Grant {
    /// Returns whether `freeze` voids its start.
    #[must_use]
    pub fn is_voided_by(&self, freeze: &Freeze) -> bool {
        let is_ahead = (freeze.seen..freeze.until).contains(&self.start) && self.received <= freeze.seen;
        is_ahead && freeze.concerns(&self.answer.charged)
    }

    /// Returns what limits depend on, with the scheduler's computed cost, if any, and the way and the account it chose.
    #[must_use]
    pub fn asked(&self) -> Asked<'static> {
        let way = self.answer.way.and_then(|way| self.request.any_of.get(usize::from(way).checked_sub(1)?));
        let costs = [way.map(|way| &way.cost), Some(&self.answer.cost)].into_iter().flatten();
        let cost = { costs }.find(|cost| !cost.is_empty()).unwrap_or(&self.request.cost);
        let labels = self.request.labels.clone();
        let labels = way.map_or(labels.clone(), |way| labels.replaced_by(&way.labels));
        let labels = match &self.answer.account {
            Some(account) => labels.with(ACCOUNT, account.clone()),
            None => labels,
        };
        Asked { cost: cost.clone(), labels }
    }

    /// Returns whether the session itself granted the permit, as no scheduler answered. None learns of it or its end.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.request.id.is_none()
    }

    /// Returns when the permit lapses, from when on it must not be used, if it does.
    #[must_use]
    pub fn lapses(&self) -> Option<Time> {
        self.valid.map(|valid| self.start + valid)
    }
}

/// Why there is no permit.
#[derive(Clone, Debug, PartialEq)]
pub enum Denial {
    /// The scheduler refused the request.
    Refused(Refused<'static>),
    /// The deadline passed first.
    TimedOut {
        /// How long the request waited.
        waited: Span,
        /// The limit that delayed the request by the scheduler's last report.
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
