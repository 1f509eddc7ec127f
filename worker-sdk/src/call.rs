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

/// A call that has begun. If it is dropped, it counts as made, at its estimated cost.
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

    /// Reports how the call went. Does not wait.
    pub fn settle(self, outcome: Outcome) {
        self.end(outcome);
    }

    /// Renews the lease of this call in limits that count calls in flight. For a call longer than
    /// its lease, if the client [does not renew](crate::client::ClientBuilder::without_renewal).
    pub fn extend(&self) {
        if let Some(id) = self.unsettled.id() {
            let asked = Asked { cost: self.request.cost.clone(), labels: self.request.labels.clone() };
            self.unsettled.send(Settle::extension(id.clone(), asked));
        }
    }

    /// Settles the call and returns its request, which can be sent again.
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

/// Fills in the outcome. A wrong cost does not suppress the rest; the scheduler then uses the
/// estimate.
fn write(settle: &mut Settle<'static>, outcome: Outcome) {
    let (response, cost) = outcome.into_wire();
    settle.response = response;
    match cost.map(crate::Cost::into_wire) {
        Some(Ok(cost)) => settle.cost = cost,
        Some(Err(error)) => tracing::warn!(%error, "settling without the actual cost"),
        None => {}
    }
}
