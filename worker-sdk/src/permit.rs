//! The right to make one call.

use crate::acquire::Wanted;
use crate::asking::Asking;
use crate::session::Grant;
use crate::unsettled::Unsettled;
use crate::{Call, Error, Resource};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::time::Duration;

/// The right to make one call, not made use of yet.
///
/// **A permit that is dropped is given back.** Say [`begin`](Permit::begin) right before the call:
/// what it returns is settled as used, whatever happens then. A permit that is merely kept alive
/// beside the call (`let _permit = …`) would give tokens back that the call has spent.
///
/// ```no_run
/// # async fn fetch() -> u16 { 200 }
/// # async fn example(hub: rampmeter_worker_sdk::Resource) -> Result<(), rampmeter_worker_sdk::Error> {
/// use rampmeter_worker_sdk::Outcome;
/// let call = hub.acquire(1).await?.begin();
/// let status = fetch().await;
/// call.settle(Outcome::status(status));
/// # Ok(())
/// # }
/// ```
///
/// A permit of `reserve` is for later: [`ready`](Permit::ready) waits for its start.
#[derive(Debug)]
#[must_use = "a permit that is dropped is given back; `begin()` the call"]
pub struct Permit {
    unsettled: Unsettled,
    grant: Grant,
    deadline: Time,
}

impl Permit {
    pub(crate) fn new(resource: Resource, mut grant: Grant, deadline: Time) -> Self {
        Permit { unsettled: Unsettled::new(resource, grant.request.id.take()), grant, deadline }
    }

    /// Marks the permit as used. Call this right before the call that it is for, not before its start.
    pub fn begin(self) -> Call {
        Call::new(self.unsettled, self.grant.request)
    }

    /// Waits until the call may be made, and not longer.
    ///
    /// A permit that has become void meanwhile, because a freeze was announced or because it has
    /// lapsed, is given back and asked for anew, within the deadline of the first request.
    ///
    /// # Errors
    /// If it had to be asked for anew, as asking for it.
    pub async fn ready(mut self) -> Result<Permit, Error> {
        while !self.starts().await {
            self = self.renewed().await?;
        }
        Ok(self)
    }

    /// How long to wait until the call may be made.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.grant.start.since(self.now()).duration()
    }

    /// The limit that set the delay, where one did.
    #[must_use]
    pub fn limited_by(&self) -> Option<&str> {
        self.grant.limited_by.as_deref()
    }

    /// The permit's name in the scheduler's log.
    #[must_use]
    pub fn id(&self) -> &str {
        self.unsettled.id().map_or("", PermitId::as_str)
    }

    /// Whether there is nothing to wait for.
    pub(crate) fn may_start(&self) -> bool {
        self.delay().is_zero() && self.is_good()
    }

    /// Waits for the start; whether the permit is still good then.
    async fn starts(&self) -> bool {
        if self.delay().is_zero() {
            return self.is_good();
        }
        let start = self.unsettled.resource.link().clock.instant(self.grant.start);
        tokio::select! {
            biased;
            () = self.voided() => false,
            () = tokio::time::sleep_until(start.into()) => true,
        }
    }

    async fn voided(&self) {
        let mut freezes = self.unsettled.resource.freezes().clone();
        let void = freezes.wait_for(|freeze| freeze.voids(&self.grant)).await.is_ok();
        if !void {
            // The driver is gone, and nobody announces anything any more.
            std::future::pending::<()>().await;
        }
    }

    fn is_good(&self) -> bool {
        let void = self.unsettled.resource.freezes().borrow().voids(&self.grant);
        let lapsed = self.grant.valid.is_some_and(|valid: Span| self.now() > self.grant.start + valid);
        !void && !lapsed
    }

    fn now(&self) -> Time {
        self.unsettled.resource.link().clock.now()
    }

    /// The old permit goes back first, so that the new one may have its tokens.
    async fn renewed(self) -> Result<Permit, Error> {
        let Permit { unsettled, grant, deadline } = self;
        let resource = unsettled.resource.clone();
        drop(unsettled);
        Asking::begin(Wanted { resource, request: grant.request, deadline }).await
    }
}
