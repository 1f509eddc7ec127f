//! The right to make one call.

use crate::request_future::RequestFuture;
use crate::request_future::RequestSpec;
use crate::unsettled::Unsettled;
use crate::{Call, Error, Resource};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::left::Left;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::time::Time;
use rampmeter_worker_session::Grant;
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
    /// lapsed, is given back and asked for anew, within the deadline of the first request and at its age. What is
    /// returned is good at that moment: make the call before you wait for anything else.
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

    /// How long from now the permit is good: zero for one that may not be used any more, `None` for
    /// one that does not lapse. Whoever has kept a permit for a while looks here before the call.
    ///
    /// ```no_run
    /// # async fn example(hub: rampmeter_worker_sdk::Resource) -> Result<(), rampmeter_worker_sdk::Error> {
    /// # async fn prepare() {}
    /// let mut permit = hub.acquire(1).await?;
    /// prepare().await;
    /// if permit.valid_for().is_some_and(|left| left.is_zero()) {
    ///     permit = permit.ready().await?; // gives it back and asks anew
    /// }
    /// # drop(permit.begin());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn valid_for(&self) -> Option<Duration> {
        if self.grant.is_voided_by(*self.unsettled.resource.freezes().borrow()) {
            return Some(Duration::ZERO);
        }
        self.grant.lapses().map(|lapses| lapses.since(self.now()).duration())
    }

    /// The limit that set the delay, where one did.
    #[must_use]
    pub fn limited_by(&self) -> Option<&str> {
        self.grant.answer.limited_by.as_deref()
    }

    /// What is left of the limits that the call is charged to, if [that was asked for](crate::call::Acquire::with_left): for people, and for
    /// clients of a server. Others may have it by now.
    #[must_use]
    pub fn left(&self) -> &[Left<'static>] {
        &self.grant.answer.left
    }

    /// Whether the client granted it itself, as no scheduler answered; see
    /// [`Unreachable::SafeRate`](crate::policy::Unreachable::SafeRate).
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.unsettled.id().is_none()
    }

    /// The permit's name in the scheduler's log; empty if it [is local](Permit::is_local).
    #[must_use]
    pub fn id(&self) -> &str {
        self.unsettled.id().map_or("", PermitId::as_str)
    }

    /// Whether there is nothing to wait for.
    pub(crate) fn may_start(&self) -> bool {
        self.delay().is_zero() && self.is_good()
    }

    /// Waits for the start; whether the permit is still good then. The look comes last: a process that
    /// was stalled wakes up long after the start.
    async fn starts(&self) -> bool {
        if !self.delay().is_zero() {
            let start = self.unsettled.resource.link().clock.instant(self.grant.start);
            tokio::select! {
                biased;
                () = self.voided() => {}
                () = tokio::time::sleep_until(start.into()) => {}
            }
        }
        self.is_good()
    }

    async fn voided(&self) {
        let mut freezes = self.unsettled.resource.freezes().clone();
        let void = freezes.wait_for(|freeze| self.grant.is_voided_by(*freeze)).await.is_ok();
        if !void {
            // The driver is gone, and nobody announces anything any more.
            std::future::pending::<()>().await;
        }
    }

    fn is_good(&self) -> bool {
        self.valid_for().is_none_or(|left| !left.is_zero())
    }

    fn now(&self) -> Time {
        self.unsettled.resource.link().clock.now()
    }

    /// The old permit goes back first, so that the new one may have its tokens. The new one is as old as the first was: it keeps its
    /// place among those who wait.
    async fn renewed(self) -> Result<Permit, Error> {
        let age_ms = Millis::from(self.now().since(self.grant.since));
        let Permit { unsettled, grant, deadline } = self;
        let resource = unsettled.resource.clone();
        drop(unsettled);
        let mut request = grant.request;
        request.age_ms = age_ms;
        RequestFuture::begin(RequestSpec { resource, request, deadline }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Link, Message};
    use rampmeter_protocol::answer::Granted;
    use rampmeter_protocol::clock::Clock;
    use rampmeter_protocol::name::Name;
    use rampmeter_protocol::request::PermitRequest;
    use rampmeter_protocol::time::Span;
    use rampmeter_worker_session::{Denial, Event, Freeze};
    use std::sync::Arc;
    use tokio::sync::{mpsc, watch};

    /// A permit whose driver is the test.
    struct Stage {
        permit: Permit,
        freezes: watch::Sender<Freeze>,
        messages: mpsc::UnboundedReceiver<Message>,
    }

    /// How long a permit of these tests has been wanted when it comes.
    const AGE: Span = Span::from_secs(7);

    fn named() -> Option<PermitId> {
        Some(PermitId::generated(1, 1))
    }

    /// Milliseconds from now: the start, and from there how long the permit is good.
    fn stage(id: Option<PermitId>, start: u64, valid: Option<u64>) -> Stage {
        let (sender, mut messages) = mpsc::unbounded_channel();
        let link = Arc::new(Link::new(Clock::start(), sender, Arc::default()));
        let received = link.clock.now();
        let resource = Resource::new(link, Name::new("hub").unwrap());
        let Ok(Message::Open { freezes, .. }) = messages.try_recv() else { panic!("a resource is opened first") };
        let grant = Grant {
            request: Box::new(PermitRequest { id, ..PermitRequest::default() }),
            since: received - AGE,
            received,
            start: received + Span::from_millis(start),
            valid: valid.map(Span::from_millis),
            answer: Granted::default(),
        };
        Stage { permit: Permit::new(resource, grant, Time::NEVER), freezes, messages }
    }

    /// Waits for the permit and answers what it asks for anew with a refusal: whether it did ask.
    async fn is_renewed(stage: Stage) -> bool {
        let Stage { permit, freezes, mut messages } = stage;
        let driver = async {
            let mut given_back = false;
            while let Some(message) = messages.recv().await {
                match message {
                    Message::Tell(Event::Settled { settle, .. }) => given_back = !settle.used,
                    Message::Ask(pending) => {
                        assert!(given_back, "the old permit goes back first");
                        assert!(pending.request.age_ms.span() >= AGE, "it has been wanted since the first time");
                        pending.answer.send(Err(Denial::Closed)).unwrap();
                    }
                    Message::Open { .. } | Message::Cancel { .. } | Message::Tell(_) | Message::Close { .. } => {
                        panic!("not said here: {message:?}")
                    }
                }
            }
        };
        let ready = async move { permit.ready().await.is_err() };
        let (renewed, ()) = tokio::join!(ready, driver);
        drop(freezes);
        renewed
    }

    #[tokio::test]
    async fn a_permit_that_lapses_while_it_waits_is_asked_for_anew() {
        assert!(is_renewed(stage(named(), 5, Some(0))).await);
        assert!(is_renewed(stage(named(), 0, Some(0))).await);
        assert!(!is_renewed(stage(named(), 5, Some(60_000))).await);
        assert!(!is_renewed(stage(named(), 0, None)).await);
    }

    #[tokio::test]
    async fn a_permit_that_a_freeze_voids_is_asked_for_anew() {
        let stage = stage(named(), 60_000, Some(60_000));
        let seen = stage.permit.grant.received;
        stage.freezes.send_replace(Freeze { seen, until: seen + Span::from_secs(100) });
        assert_eq!(stage.permit.valid_for(), Some(Duration::ZERO));
        assert!(is_renewed(stage).await);
    }

    #[test]
    fn a_permit_is_good_for_its_delay_and_what_is_valid_of_it() {
        let left = stage(named(), 60_000, Some(60_000)).permit.valid_for().unwrap();
        assert!(left > Duration::from_secs(119) && left <= Duration::from_secs(120), "{left:?}");
        assert_eq!(stage(named(), 60_000, None).permit.valid_for(), None);
    }

    #[test]
    fn nobody_hears_how_a_local_permit_ended() {
        let Stage { permit, mut messages, .. } = stage(None, 0, None);
        assert!(permit.is_local() && permit.id().is_empty());
        let call = permit.begin();
        call.extend();
        drop(call);
        assert!(messages.try_recv().is_err());
    }
}
