//! A call in flight.

pub use crate::acquire::Acquire;
pub use crate::outcome::Reply;
pub use rampmeter_protocol::left::Left;

use crate::Outcome;
use crate::stats::count;
use crate::unsettled::Unsettled;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::{Asked, Settle};
use rampmeter_protocol::time::Time;

/// A call that has been begun. Dropped, it counts as made, at its estimated cost.
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
    request: Box<PermitRequest<'static>>,
    begun: Time,
}

impl Call {
    pub(crate) fn new(mut unsettled: Unsettled, request: Box<PermitRequest<'static>>) -> Self {
        unsettled.used = true;
        let begun = unsettled.resource.link().clock.now();
        Call { unsettled, request, begun }
    }

    /// Tells the scheduler how the call went. Costs no waiting.
    pub fn settle(self, outcome: Outcome) {
        self.end(outcome);
    }

    /// Renews what the call holds of limits that count calls in flight: for a call that takes longer than its limit's time to
    /// live, by a client that [does not do so itself](crate::client::ClientBuilder::without_renewal).
    pub fn extend(&self) {
        if let Some(id) = self.unsettled.id() {
            let asked = Asked { cost: self.request.cost.clone(), labels: self.request.labels.clone() };
            self.unsettled.mention(Settle::extension(id.clone(), asked));
        }
    }

    /// Settles; what was asked for is left, to be asked for again.
    pub(crate) fn end(self, outcome: Outcome) -> Box<PermitRequest<'static>> {
        let link = self.unsettled.resource.link();
        let elapsed = link.clock.now().since(self.begun);
        if outcome.is_throttled() {
            count(&link.counters.throttled);
        }
        self.unsettled.settle(|settle| {
            write(settle, outcome);
            settle.elapsed_ms = Some(Millis::from(elapsed));
        });
        self.request
    }
}

/// A wrong cost is no reason to keep the rest from the scheduler, which then takes the estimate.
fn write(settle: &mut Settle<'static>, outcome: Outcome) {
    let (response, cost) = outcome.into_wire();
    settle.response = response;
    match cost.map(crate::Cost::into_wire) {
        Some(Ok(cost)) => settle.cost = cost,
        Some(Err(error)) => tracing::warn!(%error, "settling without the actual cost"),
        None => {}
    }
}
