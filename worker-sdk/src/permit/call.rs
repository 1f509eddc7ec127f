//! Calls in flight and their settles.

pub use crate::permit::acquire::Acquire;
pub use crate::permit::outcome::Reply;
pub use crate::price::Price;
pub use rampmeter_protocol::left::Left;

use crate::connection::link::Message;
use crate::connection::stats::count;
use crate::{Outcome, Resource};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::{Report, Settle};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::trace_context::TraceContext;
use rampmeter_worker_session::{Event, Grant};

/// A call that has begun. If dropped, it counts as made, at its estimated cost.
///
/// ```no_run
/// # async fn example(hub: rampmeter_worker_sdk::Resource) -> Result<(), rampmeter_worker_sdk::Error> {
/// use rampmeter_worker_sdk::{Cost, Outcome};
/// let call = hub.acquire(1).await?.begin();
/// // … the call …
/// call.settle(Outcome::status(200).header("x-ratelimit-remaining", "41").cost(Cost::of("tokens", 512)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a call that is dropped is settled at once; keep it until the call is over"]
pub struct Call {
    unsettled: Unsettled,
    grant: Grant,
    begun: Time,
}

impl Call {
    pub(crate) fn new(mut unsettled: Unsettled, grant: Grant) -> Self {
        unsettled.used = true;
        let begun = unsettled.resource.link().clock.now();
        Call { unsettled, grant, begun }
    }

    /// Reports how the call went, without waiting.
    pub fn settle(self, outcome: Outcome) {
        self.end(outcome);
    }

    /// Gives the permit back for a call that certainly did not reach the upstream.
    pub fn give_back(mut self) {
        self.unsettled.used = false;
    }

    /// Renews the call's lease, if the client [does not](crate::client::ClientBuilder::without_renewal).
    pub fn extend(&self) {
        if let Some(id) = self.unsettled.id() {
            self.unsettled.send(Settle::extension(id.clone(), self.grant.asked()));
        }
    }

    /// Returns whether the call holds a place in a limit of calls in flight.
    #[cfg(feature = "reqwest-middleware")]
    pub(crate) fn has_place(&self) -> bool {
        self.grant.answer.lease_ms.is_some()
    }

    fn late(&self) -> Option<Span> {
        Some(self.grant.late? + self.begun.since(self.grant.start))
    }

    /// Settles the call and returns its request for another attempt.
    pub(crate) fn end(self, outcome: Outcome) -> Box<PermitRequest<'static>> {
        let link = self.unsettled.resource.link();
        let elapsed = link.clock.now().since(self.begun);
        if outcome.is_throttled() {
            count(&link.counters.throttled);
        }
        let late = self.late();
        self.unsettled.settle(Report { late_ms: late.map(Millis::from), ..report(outcome, elapsed) });
        self.grant.request
    }
}

/// Reports a call. Instead of an invalid cost, the scheduler uses the estimate.
fn report(outcome: Outcome, elapsed: Span) -> Report<'static> {
    let (response, cost) = outcome.into_wire();
    let warn = |error: &crate::Error| tracing::warn!(%error, "settling without the actual cost");
    let cost = cost.map(crate::Cost::into_wire).transpose().inspect_err(warn).ok().flatten();
    Report { cost: cost.unwrap_or_default(), response, elapsed_ms: Some(Millis::from(elapsed)), late_ms: None }
}

/// Settles when dropped: as used if the call has begun, else as unused.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(crate) resource: Resource,
    pub(crate) used: bool,
    id: Option<PermitId>,
    trace: Option<TraceContext>,
}

impl Unsettled {
    /// `trace` is the span in which the permit was requested.
    pub(crate) fn new(resource: Resource, id: Option<PermitId>, trace: Option<TraceContext>) -> Self {
        Unsettled { resource, used: false, id, trace }
    }

    pub(crate) fn id(&self) -> Option<&PermitId> {
        self.id.as_ref()
    }

    pub(crate) fn settle(mut self, report: Report<'static>) {
        if let Some(id) = self.id.take() {
            self.send(Settle::reported(id, report));
        }
    }

    /// Sends a settle that does not end the permit.
    pub(crate) fn send(&self, settle: Settle<'static>) {
        let settle = Settle { trace: self.trace, ..settle };
        let event = Event::Settled { resource: self.resource.number(), settle: Box::new(settle) };
        self.resource.link().send(Message::Event(event));
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        if self.used {
            return self.send(Settle::used(id));
        }
        self.send(Settle::unused(id));
        count(&self.resource.link().counters.returned);
    }
}
