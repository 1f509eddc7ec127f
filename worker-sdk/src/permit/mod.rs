//! Permits.

pub(super) mod acquire;
pub mod call;
pub(super) mod outcome;
pub(super) mod run;
pub(super) mod span;

use crate::{Call, Cost, Error, Resource};
use acquire::{RequestFuture, RequestSpec};
use call::Unsettled;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::left::Left;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::time::Time;
use rampmeter_worker_session::Grant;
use span::PermitSpan;
use std::time::Duration;

/// The right to make one call, not yet used.
///
/// **A dropped permit is given back.** Call [`begin`](Permit::begin) right before the call: it
/// returns a [`Call`], which is settled as used whatever happens. A permit merely kept alive beside
/// the call (`let _permit = …`) would give back tokens that the call has spent.
///
/// A permit from `reserve` may start later; [`ready`](Permit::ready) waits for its start.
#[derive(Debug)]
#[must_use = "a permit that is dropped is given back; `begin()` the call"]
pub struct Permit {
    unsettled: Unsettled,
    grant: Grant,
    deadline: Time,
    /// The request's span, which ends when the call begins or the permit is given back.
    _span: PermitSpan,
}

impl Permit {
    pub(crate) fn new(resource: Resource, mut grant: Grant, deadline: Time, span: PermitSpan) -> Self {
        // A request for a replacement belongs to the same span as this one.
        let trace = std::mem::replace(&mut grant.request.trace, span.parent());
        let unsettled = Unsettled::new(resource, grant.request.id.take(), trace);
        Permit { unsettled, grant, deadline, _span: span }
    }

    /// Marks the permit as used, right before the permitted call and not before its start.
    pub fn begin(self) -> Call {
        Call::new(self.unsettled, self.grant)
    }

    /// Waits until the call may be made. If a freeze voids the permit or it lapses meanwhile, it is given back, and a
    /// new one is requested with the original deadline and the age of the first request. The returned permit is valid
    /// at that moment: make the call before you await anything else.
    ///
    /// # Errors
    /// Those of requesting a permit, if a new one was needed.
    pub async fn ready(mut self) -> Result<Permit, Error> {
        while !self.wait_for_start().await {
            self = self.renewed().await?;
        }
        Ok(self)
    }

    /// Returns how long to wait until the call may be made.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.grant.start.since(self.now()).duration()
    }

    /// Returns how long the permit stays valid: zero if it must not be used any more, `None` if it
    /// never lapses. Check this before the call if you have kept the permit for a while.
    ///
    /// ```no_run
    /// # async fn example(hub: rampmeter_worker_sdk::Resource) -> Result<(), rampmeter_worker_sdk::Error> {
    /// # async fn prepare() {}
    /// let mut permit = hub.acquire(1).await?;
    /// prepare().await;
    /// if permit.valid_for().is_some_and(|left| left.is_zero()) {
    ///     permit = permit.ready().await?; // gives it back and asks again
    /// }
    /// # drop(permit.begin());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn valid_for(&self) -> Option<Duration> {
        if self.unsettled.resource.freezes().borrow().void(&self.grant) {
            return Some(Duration::ZERO);
        }
        self.grant.lapses().map(|lapses| lapses.since(self.now()).duration())
    }

    /// Returns the limit that set the delay, if any.
    #[must_use]
    pub fn limited_by(&self) -> Option<&str> {
        self.grant.answer.limited_by.as_deref()
    }

    /// Returns the account that makes the call, if the resource has accounts.
    #[must_use]
    pub fn account(&self) -> Option<&str> {
        self.grant.answer.account.as_deref()
    }

    /// Returns the way to make the call: 0 as the request has it, else the number of an [`or`](call::Acquire::or).
    #[must_use]
    pub fn way(&self) -> usize {
        self.grant.answer.way.map_or(0, usize::from)
    }

    /// Returns the requested cost, that of the [way](Permit::way) that was chosen, or the one that the scheduler
    /// [computed](call::Acquire::price).
    #[must_use]
    pub fn cost(&self) -> Cost {
        let cost = self.grant.asked().cost;
        if cost.is_empty() { Cost::default() } else { Cost::from(cost) }
    }

    /// Returns what is left of the call's limits, if [requested](call::Acquire::with_left); others may have spent it.
    #[must_use]
    pub fn left(&self) -> &[Left<'static>] {
        &self.grant.answer.left
    }

    /// Returns whether the client itself granted the permit because no scheduler answered; see
    /// [`Unreachable::SafeRate`](crate::policy::Unreachable::SafeRate).
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.unsettled.id().is_none()
    }

    /// Returns the id in the scheduler's log; empty for a [local](Permit::is_local) permit.
    #[must_use]
    pub fn id(&self) -> &str {
        self.unsettled.id().map_or("", PermitId::as_str)
    }

    pub(crate) fn may_start(&self) -> bool {
        self.delay().is_zero() && self.is_good()
    }

    /// Waits for the start and then, as a stalled process wakes up late, returns whether the permit is still valid.
    async fn wait_for_start(&self) -> bool {
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
        let void = freezes.wait_for(|freezes| freezes.void(&self.grant)).await.is_ok();
        if !void {
            // The driver has ended and will announce no freeze.
            std::future::pending::<()>().await;
        }
    }

    fn is_good(&self) -> bool {
        self.valid_for().is_none_or(|left| !left.is_zero())
    }

    fn now(&self) -> Time {
        self.unsettled.resource.link().clock.now()
    }

    /// Replaces the permit. The old one is given back first, as its tokens can serve the new one, which has its age.
    async fn renewed(self) -> Result<Permit, Error> {
        let age_ms = Millis::from(self.now().since(self.grant.since));
        let Permit { unsettled, grant, deadline, .. } = self;
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
    use crate::Outcome;
    use crate::connection::link::{Link, Message};
    use rampmeter_protocol::answer::Granted;
    use rampmeter_protocol::clock::Clock;
    use rampmeter_protocol::name::Name;
    use rampmeter_protocol::request::PermitRequest;
    use rampmeter_protocol::settle::Fate;
    use rampmeter_protocol::time::Span;
    use rampmeter_worker_session::{Denial, Event, Freeze, Freezes};
    use std::sync::Arc;
    use tokio::sync::{mpsc, watch};

    /// A permit with the test as its driver.
    struct Stage {
        permit: Permit,
        freezes: watch::Sender<Freezes>,
        messages: mpsc::UnboundedReceiver<Message>,
    }

    /// The age of a permit in these tests when it is granted.
    const AGE: Span = Span::from_secs(7);

    fn named() -> Option<PermitId> {
        Some(PermitId::secret(1))
    }

    /// `start` and `valid` are milliseconds: from now to the start, and from there to the lapse.
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
            late: None,
            valid: valid.map(Span::from_millis),
            answer: Granted::default(),
        };
        Stage { permit: Permit::new(resource, grant, Time::NEVER, PermitSpan::default()), freezes, messages }
    }

    /// Waits for the permit and refuses the request for a new one. Returns whether there was a request.
    async fn is_renewed(stage: Stage) -> bool {
        let Stage { permit, freezes, mut messages } = stage;
        let driver = async {
            let mut given_back = false;
            while let Some(message) = messages.recv().await {
                match message {
                    Message::Event(Event::Settled { settle, .. }) => given_back = settle.fate == Fate::Unused,
                    Message::Ask { request, answer, .. } => {
                        assert!(given_back, "the old permit goes back first");
                        assert!(request.age_ms.span() >= AGE, "it has been wanted since the first time");
                        answer.send(Err(Denial::Closed)).unwrap();
                    }
                    Message::Open { .. }
                    | Message::Cancel { .. }
                    | Message::Event(_)
                    | Message::Token { .. }
                    | Message::Close { .. } => {
                        panic!("unexpected: {message:?}")
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
        let freeze = Freeze { seen, until: seen + Span::from_secs(100), buckets: Vec::new() };
        stage.freezes.send_modify(|known| known.add(freeze));
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
    fn a_settle_says_how_late_its_call_was_sent_if_that_is_known() {
        for late in [None, Some(Span::from_millis(3))] {
            let Stage { mut permit, mut messages, .. } = stage(named(), 0, None);
            permit.grant.late = late;
            permit.begin().settle(Outcome::status(200));
            let Ok(Message::Event(Event::Settled { settle, .. })) = messages.try_recv() else { panic!("a settle") };
            let Fate::Used(report) = settle.fate else { panic!("the call was made") };
            assert!(report.elapsed_ms.is_some());
            assert_eq!(report.late_ms.map(|sent| Some(sent.span()) >= late), late.map(|_| true));
        }
    }

    #[test]
    fn the_end_of_a_local_permit_is_not_reported() {
        let Stage { permit, mut messages, .. } = stage(None, 0, None);
        assert!(permit.is_local() && permit.id().is_empty());
        let call = permit.begin();
        call.extend();
        drop(call);
        assert!(messages.try_recv().is_err());
    }
}
