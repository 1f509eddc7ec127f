//! The loop of one resource, which feeds its core from three subscriptions and this process. Loops may share a thread.

use crate::audit::Action;
use crate::context::ProcessContext;
use crate::limits::limit_sources::LimitSources;
use crate::messages::inbound::{Address, Endpoint, Endpoints, Inbound};
use crate::messages::reply::ReplyTo;
use crate::permits::answers::core_driver::CoreDriver;
use crate::permits::answers::loop_request::{Handover, LoopRequest};
use crate::permits::answers::outbox::Outbox;
use crate::permits::answers::traces::Traces;
use crate::permits::incoming::intake::{Intake, Received};
use crate::permits::incoming::pricing::{Priced, PricedMessage, Prices};
use crate::permits::incoming::purges::Purges;
use crate::permits::loop_handle::LoopChannels;
use crate::permits::recent_counts::RecentCounts;
use crate::permits::reports::Reports;
use crate::permits::succession::Succession;
use crate::permits::term_guard::TermGuard;
use crate::permits::timer::Timer;
use crate::permits::watch::leadership_check::LeadershipCheck;
use crate::permits::watch::loopback_check::LoopbackCheck;
use crate::wall_time;
use async_nats::{Client, Message, SubscribeError};
use rampmeter_config::Pricing;
use rampmeter_dialects::Reader;
use rampmeter_discovery::Discovery;
use rampmeter_protocol::log_throttle::LogThrottle;
use rampmeter_protocol::status::StatusQuery;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::checkpoint_number::CheckpointNumber;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::scheduler::{Scheduler, Wakeup};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The orders of operators, with their names in the log.
const ORDERS: [(Endpoint, &str); 4] =
    [(Endpoint::Purge, "purge"), (Endpoint::Thaw, "thaw"), (Endpoint::Freeze, "freeze"), (Endpoint::Empty, "empty")];
/// Bound on messages handled before answers are sent: sending wakes the server and costs as much as some permits.
const BURST: usize = 256;
/// Bound on the duration of such a burst, so that no answer is delayed by much.
const LONGEST_BURST: Span = Span::from_nanos(250_000);
/// How long sending the last answers may take: a small part of the time of a graceful stop.
const FAREWELL: Duration = Duration::from_secs(1);
/// A standby that probed this loop within this time counts as alive. It probes every 80 ms.
const PROBED_WITHIN: Span = Span::from_secs(1);
/// How long settles are kept for a standby, once the state is written. It takes over within 0.1 s.
const SUCCESSION: Duration = Duration::from_secs(2);

/// The parts of a loop.
#[derive(Debug)]
pub struct Parts {
    /// The restored core.
    pub core: Scheduler<ReplyTo>,
    /// The discovery of limits, restored with the core.
    pub discovery: Discovery,
    /// The knowledge of the upstream.
    pub upstream: Upstream,
    /// The state shared by the process. The core was restored with its clock.
    pub context: ProcessContext,
    /// The channels to the rest of the process.
    pub channels: LoopChannels,
    /// The first checkpoint of a new store, which counts after listening, unless a worker knows of another leader.
    pub unconfirmed: Option<CheckpointNumber>,
    /// The sources of the limits.
    pub limits: LimitSources,
}

/// A leader's knowledge of the upstream, apart from its limits.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Reads the upstream's responses.
    pub reader: Reader,
    /// Computes the costs of calls, if configured.
    pub pricing: Option<Pricing>,
    /// Whether another task answers requests for the access token.
    pub shares_token: bool,
}

/// Serves one resource. Invariant at the top of its loop: all received events are in the core, all answers published.
#[derive(Debug)]
pub struct PermitLoop {
    /// The connection of this thread.
    client: Client,
    pub(super) context: ProcessContext,
    pub(super) timer: Timer,
    intake: Intake,
    pub(super) driver: CoreDriver,
    pub(super) term: TermGuard,
    pub(super) limits: LimitSources,
    pub(super) upstream: Upstream,
    /// When another scheduler last probed this loop.
    probed_at: Time,
    purges: Purges,
    pub(super) reports: Reports,
    pub(super) recent: RecentCounts,
    /// When the loop began, in UTC.
    pub(super) since: String,
    pub(super) log: LogThrottle,
}

impl PermitLoop {
    /// Subscribes to the subjects of the resource.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn subscribe(client: Client, parts: Parts) -> Result<Self, SubscribeError> {
        let Parts { core, discovery, upstream, context, channels, unconfirmed, limits } = parts;
        let ProcessContext { subjects, leader, spans, .. } = &context;
        let name = core.resource().name().clone();
        let outbox = Outbox::new(client.clone(), subjects, &name);
        let endpoints = Endpoints::new(subjects, &name, spans.is_some());
        let (probes, no_responders) = (subjects.probe(&name, leader), outbox.undelivered.all());
        let prices = upstream.pricing.and_then(Prices::start);
        let here = (channels.orders, channels.inbound);
        let intake = Intake::subscribe(&client, endpoints, probes, no_responders, here, prices).await?;
        let now = context.clock.now();
        let leadership = LeadershipCheck::new(now, unconfirmed, Arc::clone(&context.process));
        let (loopback, connects) = (LoopbackCheck::new(now, leader), outbox.connects());
        let term =
            TermGuard::new(leader.clone(), connects, leadership, loopback, channels.opened, channels.checkpoints);
        Ok(PermitLoop {
            client,
            timer: Timer::new(context.clock),
            intake,
            driver: CoreDriver::new(core, discovery, outbox, Traces::new(spans.clone(), &name)),
            term,
            limits,
            context,
            upstream,
            probed_at: Time::ORIGIN - PROBED_WITHIN,
            purges: Purges::default(),
            reports: Reports::default(),
            recent: RecentCounts::new(now),
            since: wall_time::text(),
            log: LogThrottle::default(),
        })
    }

    /// Runs until the channel of orders or the connection is closed for good.
    pub async fn run(mut self) {
        self.term.start(&mut self.driver);
        let ended = match self.lead().await {
            Some(to) => self.hand_over(to).await,
            None => self.step_down().await,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "the last messages may be lost");
        }
    }

    /// Runs until the end of the term. Returns the receiver of the state if it is to be handed over.
    async fn lead(&mut self) -> Option<oneshot::Sender<Handover>> {
        loop {
            // 1. The next checkpoint is written in time, so that promised starts have room under it.
            let now = self.timer.now();
            self.term.send_due_echo(now, &mut self.driver);
            self.term.keep_checkpointed(now, &mut self.driver, self.limits.revision());
            // 2. Answers go out, unless so much time has passed that another scheduler may lead.
            self.term.check_leadership(self.timer.now(), &mut self.driver);
            self.publish().await;
            // 3. One event is taken, or a burst of messages.
            self.take_in().await;
            let received = self.receive().await;
            self.term.check_leadership(self.timer.now(), &mut self.driver);
            match received {
                Some(Received::LoopRequest(LoopRequest::HandOver(to))) => return Some(to),
                Some(Received::LoopRequest(request)) => self.handle_request(request),
                Some(Received::Inbound(inbound)) if !self.term.reads() => self.intake.put_back(inbound),
                Some(Received::Inbound(inbound)) => self.take_burst(inbound),
                Some(Received::Priced(priced)) => self.take_priced(priced),
                Some(Received::Probe(reply)) => self.answer_probe(reply),
                Some(Received::NoResponders(notice)) => self.take_no_responders(&notice),
                Some(Received::End) => return None,
                None => self.term.notice_late_echo(self.timer.now(), &mut self.driver),
            }
            // 4. What is due is done, even if no timer has rung.
            self.keep_time();
        }
    }

    /// Returns the next event, or `None` when it is time for the next look.
    async fn receive(&mut self) -> Option<Received> {
        let next_look = self.term.next_look(self.timer.now(), &self.driver);
        self.timer.set(next_look);
        let (reads, walks) = (self.term.reads(), self.can_walk());
        let Self { timer, intake, .. } = self;
        tokio::select! {
            biased;
            received = intake.next(reads) => Some(received),
            () = timer.ring() => None,
            // A step of a walk waits until all that has come in is taken and answers are sent.
            () = tokio::task::yield_now(), if walks => None,
        }
    }

    /// Returns whether a walk along waiting requests can take its next step.
    fn can_walk(&self) -> bool {
        self.term.may_answer(&self.driver) && (self.driver.outbox.undelivered.has_walk() || !self.purges.is_empty())
    }

    async fn publish(&mut self) {
        let Self { driver, timer, .. } = self;
        driver.publish(|| timer.now()).await;
    }

    fn take_burst(&mut self, first: Inbound) {
        let began = self.timer.now();
        let mut now = self.take(began, first);
        for _ in 1..BURST {
            if !self.term.reads() || now.since(began) > LONGEST_BURST {
                return;
            }
            if let Some(notice) = self.intake.ready_no_responders() {
                return self.take_no_responders(&notice);
            }
            let Some(inbound) = self.intake.ready_message() else { return };
            now = self.take(now, inbound);
        }
    }

    /// Handles a message at `now`, once its costs are known. Returns when that was done.
    fn take(&mut self, now: Time, inbound: Inbound) -> Time {
        let Some(PricedMessage { inbound, prices }) = self.intake.without_prices(inbound) else { return now };
        self.handle(now, inbound, &prices)
    }

    fn take_priced(&mut self, PricedMessage { inbound, prices }: PricedMessage) {
        match self.term.reads() {
            true => drop(self.handle(self.timer.now(), inbound, &prices)),
            // Its costs are computed again.
            false => self.intake.waiting.push(inbound),
        }
    }

    /// Handles a message at `now`, and returns when that was done.
    fn handle(&mut self, now: Time, inbound: Inbound, prices: &[Option<Priced>]) -> Time {
        let Inbound { endpoint, reply, payload, trace } = inbound;
        let trace = trace.as_deref();
        self.audit(&endpoint, reply.as_ref(), &payload);
        let counted = endpoint.kind().map(|kind| (kind, self.driver.tally.refused(kind)));
        match endpoint {
            Endpoint::Permit => self.ask(now, reply, &payload, None, prices, trace),
            Endpoint::PermitOf(class) => self.ask(now, reply, &payload, Some(&class), prices, trace),
            Endpoint::Settle => self.settle(now, reply, &payload, trace),
            Endpoint::Status => self.answer_status(now, reply, StatusQuery::parse(&payload)),
            Endpoint::Explain => self.explain(now, reply, &payload),
            Endpoint::Purge => self.purges.take(now, &mut self.driver, reply, &payload),
            Endpoint::Thaw => self.driver.thaw(now, reply, &payload),
            Endpoint::Freeze => self.driver.freeze(now, reply, &payload),
            Endpoint::Empty => self.driver.empty(now, reply, &payload),
            Endpoint::Echo => self.term.take_echo(now, &mut self.driver, &payload),
            // Tasks beside the loop answer these messages.
            Endpoint::Usage | Endpoint::Rules => {}
            Endpoint::Token if self.upstream.shares_token => {}
            Endpoint::Token => self.refuse(now, reply, "the access token is not shared (`share_token`)".to_owned()),
            Endpoint::Unknown(subject) => {
                self.refuse(now, reply, format!("`{subject}` is not a subject of the protocol"));
            }
        }
        let done = self.timer.now();
        let tally = &mut self.driver.tally;
        tally.decisions.observe(done.since(now));
        if let Some((kind, refused_before)) = counted {
            tally.note_handled(kind, done.since(now), refused_before);
        }
        done
    }

    /// Logs an operator's order that came over NATS. Orders from this process's page are logged there.
    fn audit(&self, endpoint: &Endpoint, reply: Option<&Address>, order: &[u8]) {
        let what = ORDERS.iter().find(|(order, _)| order == endpoint).map(|(_, what)| *what);
        if let (Some(what), Some(who)) = (what, reply.and_then(Address::user)) {
            Action { who, what, on: self.driver.core().resource().name(), from: "nats", order }.log();
        }
    }

    fn refuse(&mut self, now: Time, reply: Option<Address>, why: String) {
        if let Some(reply) = reply {
            self.driver.refuse_invalid(now, ReplyTo::alone(reply), None, why);
        }
    }

    /// Handles the present notices of *no responders*, for at most the time of a burst.
    fn take_no_responders(&mut self, first: &Message) {
        let began = self.timer.now();
        self.driver.take_no_responders(began, first);
        while self.timer.now().since(began) <= LONGEST_BURST {
            let Some(notice) = self.intake.ready_no_responders() else { return };
            self.driver.take_no_responders(self.timer.now(), &notice);
        }
    }

    fn answer_probe(&mut self, reply: Option<Address>) {
        self.probed_at = self.timer.now();
        if let Some(reply) = reply {
            let epoch = self.driver.core().epoch();
            self.driver.outbox.send(reply, &epoch);
        }
    }

    /// Handles a stored checkpoint. Clients of unread messages, perhaps gone to another leader, are told to ask again.
    pub(super) fn note_checkpoint(&mut self, now: Time, safe: Event<ReplyTo>) {
        if self.term.note_checkpoint(now, &mut self.driver, safe) {
            for inbound in self.intake.backlog() {
                self.take(now, inbound);
            }
        }
    }

    /// Moves messages from the connection to the waiting ones. Those without room are counted and logged.
    async fn take_in(&mut self) {
        self.intake.take_in().await;
        let (now, driver) = (self.timer.now(), &mut self.driver);
        let lost = self.intake.waiting.take_lost();
        if lost > 0 {
            driver.tally.lost_messages += lost;
            let lost_so_far = driver.tally.lost_messages;
            if let Some(left_out) = self.log.admit(now, "lost messages") {
                let resource = driver.core().resource().name();
                tracing::warn!(%resource, lost_so_far, left_out, "more messages come in than can wait; the rest is lost");
            }
        }
        if let Some(error) = driver.outbox.take_failure()
            && let Some(left_out) = self.log.admit(now, "unsent messages")
        {
            let resource = driver.core().resource().name();
            tracing::warn!(%resource, %error, left_out, "a message could not be sent");
        }
        let foreign = self.intake.waiting.take_foreign();
        driver.tally.foreign_replies += foreign;
        if foreign > 0
            && let Some(left_out) = self.log.admit(now, "foreign replies")
        {
            let resource = driver.core().resource().name();
            tracing::warn!(%resource, foreign, left_out, "messages want answers at inboxes of no user, and are dropped");
        }
        if let Some((kind, left_out)) = self.log.take_overdue(now) {
            let resource = driver.core().resource().name();
            tracing::warn!(%resource, kind, left_out, "log lines of this kind were left out");
        }
    }

    /// Runs overdue work, if answers can go out: held back until a reconnect, their calls would all come at once.
    fn keep_time(&mut self) {
        if !self.term.may_answer(&self.driver) {
            return;
        }
        let (now, driver) = (self.timer.now(), &mut self.driver);
        if let Some(Wakeup { reason, .. }) = driver.next_wakeup().filter(|wakeup| wakeup.at <= now) {
            tracing::trace!(resource = %driver.core().resource().name(), ?reason, "the core wakes up");
            driver.handle(now, Event::Wake);
        }
        driver.probe_on(now);
        self.purges.step(now, driver);
        self.recent.advance(now, driver.core().counters(), &driver.tally);
    }

    /// Sends all requests of this process elsewhere. The successor has received messages over NATS too.
    async fn step_down(&mut self) -> anyhow::Result<()> {
        tokio::time::timeout(FAREWELL, async {
            self.driver.send_elsewhere(self.timer.now()).await;
            self.close_here();
            self.driver.outbox.flush().await
        })
        .await?
    }

    /// Gives the resource up: sends all waiting requests elsewhere, handles everything sent so far, returns
    /// the state for the successor, and passes on the settles that come later.
    async fn hand_over(&mut self, to: oneshot::Sender<Handover>) -> anyhow::Result<()> {
        let (resource, epoch) = (self.driver.core().resource().name().clone(), self.driver.core().epoch());
        let succession =
            Succession::begin(&self.client, &self.context.subjects, &resource, self.intake.endpoints.accounts(), epoch)
                .await;
        self.driver.send_elsewhere(self.timer.now()).await;
        let taken = tokio::time::timeout(FAREWELL, self.take_last_messages()).await;
        to.send(self.term.handover(self.timer.now(), &mut self.driver, self.limits.revision())).ok();
        let mut succession = succession?;
        self.until_written(&mut succession).await;
        let has_standby = self.timer.now().since(self.probed_at) < PROBED_WITHIN;
        let wait = if has_standby { SUCCESSION } else { Duration::ZERO };
        tokio::time::timeout(wait, succession.keep_settles()).await.ok();
        tokio::time::timeout(FAREWELL, succession.pass_on()).await??;
        taken?
    }

    /// Ends the subscription, and handles the messages sent until now.
    async fn take_last_messages(&mut self) -> anyhow::Result<()> {
        self.intake.drain().await?;
        while let Some(inbound) = self.intake.last().await {
            self.take(self.timer.now(), inbound);
            self.driver.outbox.publish().await;
        }
        self.close_here();
        self.driver.outbox.flush().await
    }

    fn close_here(&mut self) {
        for inbound in self.intake.close_here() {
            self.take(self.timer.now(), inbound);
        }
    }

    /// Answers probes while the state is being written, since the resource is not vacant until then.
    async fn until_written(&mut self, succession: &mut Succession) {
        loop {
            tokio::select! {
                biased;
                received = self.intake.next_order() => match received {
                    Received::Probe(reply) => {
                        self.answer_probe(reply);
                        self.driver.outbox.publish().await;
                    }
                    Received::End => return,
                    Received::LoopRequest(_) | Received::Inbound(_) | Received::Priced(_) | Received::NoResponders(_) => {}
                },
                () = succession.keep_settles(), if !succession.is_over() => {}
            }
        }
    }
}
