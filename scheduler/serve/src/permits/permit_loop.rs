//! The loop that answers requests for one resource: one subscription, one thread, one core.

use crate::limits::differences::Differences;
use crate::limits::limit_sources::{LimitSources, limit_news};
use crate::limits::provider_view::{ProviderNews, levels_by_limit};
use crate::log_throttle::LogThrottle;
use crate::messages::inbound::{Address, Endpoint, EndpointKind, Inbound};
use crate::messages::reply::ReplyTo;
use crate::permits::answers::core_driver::CoreDriver;
use crate::permits::answers::delivery::Delivery;
use crate::permits::answers::loop_request::{Handover, LoopRequest, Report};
use crate::permits::checkpoint_queue::CheckpointQueue;
use crate::permits::incoming::intake::{Intake, Received};
use crate::permits::incoming::limit_orders::LimitOrders;
use crate::permits::incoming::permit_requests::RequestTerms;
use crate::permits::incoming::pricing::PricedMessage;
use crate::permits::incoming::purges::Purges;
use crate::permits::incoming::response_reader::ResponseReader;
use crate::permits::incoming::settles::Settles;
use crate::permits::known_forecasts::KnownForecasts;
use crate::permits::leader_announcement::LeaderAnnouncement;
use crate::permits::loop_handle::LoopChannels;
use crate::permits::reports::Reports;
use crate::permits::term_guard::TermGuard;
use crate::permits::timer::Timer;
use crate::permits::watch::leadership_check::LeadershipCheck;
use crate::permits::watch::loopback_check::LoopbackCheck;
use crate::permits::watch::stall_detector::ProcessWatch;
use async_nats::{Client, Message, SubscribeError};
use rampmeter_config::{Pricing, limits_text};
use rampmeter_dialects::Reader;
use rampmeter_discovery::Discovery;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::explain::Question;
use rampmeter_protocol::news::News;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::ids::CheckpointNumber;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::scheduler::{Scheduler, Wakeup};
use rampmeter_telemetry::Spans;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The most messages that are taken before answers are sent: enough to share the cost of sending,
/// and few enough to delay no answer.
const BURST: usize = 16;
/// The longest time of such a burst: one message may hold many requests.
const LONGEST_BURST: Span = Span::from_nanos(250_000);
/// How long sending the last answers may take: a small part of the time of a graceful stop.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a loop is made of.
#[derive(Debug)]
pub struct Parts {
    /// The core, restored.
    pub core: Scheduler<ReplyTo>,
    /// The discovery of limits that the core was restored with.
    pub discovery: Discovery,
    /// Reads the upstream's responses.
    pub reader: Reader,
    /// How costs of calls are computed, if they are.
    pub pricing: Option<Pricing>,
    /// Where the loop subscribes.
    pub subjects: Subjects,
    /// The clock that the core was restored with.
    pub clock: Clock,
    /// Tells when this process stood still.
    pub process: Arc<ProcessWatch>,
    /// The name of this scheduler process.
    pub leader: String,
    /// The channels to the rest of the process.
    pub channels: LoopChannels,
    /// The first checkpoint of a store without a record. It counts once the leader has listened,
    /// unless a worker knows of another leader.
    pub unconfirmed: Option<CheckpointNumber>,
    /// Whether another task answers questions for the access token.
    pub shares_token: bool,
    /// The sources of the limits.
    pub limits: LimitSources,
    /// The schedulers that count differently.
    pub differences: Arc<Differences>,
    /// Where spans go, if this process sends any.
    pub spans: Option<Spans>,
}

/// Answers the requests for one resource.
///
/// Between two turns every event that has happened is in the core, and every answer is published.
#[derive(Debug)]
pub struct PermitLoop {
    alarm: Timer,
    intake: Intake,
    term: TermGuard,
    limits: LimitSources,
    differences: Arc<Differences>,
    shares_token: bool,
    responses: ResponseReader,
    purges: Purges,
    reports: Reports,
    forecasts: KnownForecasts,
    log: LogThrottle,
}

impl PermitLoop {
    /// Subscribes to all that concerns the resource.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn subscribe(client: Client, parts: Parts) -> Result<Self, SubscribeError> {
        let Parts {
            core,
            discovery,
            reader,
            pricing,
            subjects,
            clock,
            process,
            leader,
            channels,
            unconfirmed,
            shares_token,
            limits,
            differences,
            spans,
        } = parts;
        let LoopChannels { orders, inbound, checkpoints, opened } = channels;
        let name = core.resource().name().clone();
        let delivery = Delivery::new(client.clone(), &subjects, &name);
        let scope = (&subjects, &name, &*leader);
        let reading = (pricing, spans.is_some());
        let intake = Intake::subscribe(&client, scope, delivery.no_responders(), (orders, inbound), reading).await?;
        let now = clock.now();
        let watch = (LeadershipCheck::new(now, unconfirmed, process), LoopbackCheck::new(now, &leader));
        let announcement = LeaderAnnouncement::new(leader, opened);
        let core = CoreDriver::new((core, discovery), delivery, spans);
        Ok(PermitLoop {
            alarm: Timer::new(clock),
            intake,
            term: TermGuard::new(core, watch, announcement, CheckpointQueue::new(checkpoints)),
            limits,
            differences,
            shares_token,
            responses: ResponseReader::new(reader),
            purges: Purges::default(),
            reports: Reports::default(),
            forecasts: KnownForecasts::default(),
            log: LogThrottle::default(),
        })
    }

    /// Answers until the orders end or the connection is closed for good.
    pub async fn run(mut self) {
        let mut handing_over = false;
        self.term.start();
        loop {
            // 1. The next checkpoint is written in time, so that promised starts have room under
            //    it.
            let now = self.alarm.now();
            self.term.send_due_echo(now);
            self.term.keep_checkpointed(now, self.limits.revision());
            // 2. Answers go out, unless so much time has passed that another scheduler may lead.
            self.term.check_leadership(self.alarm.now());
            self.publish().await;
            // 3. One event is taken, or a burst of messages.
            self.take_in().await;
            let received = self.receive().await;
            self.term.check_leadership(self.alarm.now());
            match received {
                Some(Received::LoopRequest(order)) => {
                    handing_over |= matches!(order, LoopRequest::HandOver(_));
                    self.obey(order).await;
                }
                Some(Received::Inbound(inbound)) if !self.term.reads() => self.intake.put_back(inbound),
                Some(Received::Inbound(inbound)) => self.take_burst(inbound),
                Some(Received::Priced(priced)) => self.take_priced(priced),
                Some(Received::Probe(reply)) => self.answer_probe(reply),
                Some(Received::NoResponders(notice)) => self.take_no_responders(&notice),
                Some(Received::End) => break,
                None => self.term.notice_late_echo(self.alarm.now()),
            }
            // 4. What is due is done, even if no timer has rung.
            self.keep_time();
        }
        match tokio::time::timeout(FAREWELL, self.send_last_answers(handing_over)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the last answers may be lost"),
            Err(elapsed) => tracing::debug!(%elapsed, "the last answers may be lost"),
        }
    }

    /// What has come in; `None` if the time of the next look came first.
    async fn receive(&mut self) -> Option<Received> {
        let next_look = self.term.next_look(self.alarm.now());
        self.alarm.set(next_look);
        let (reads, walks) = (self.term.reads(), self.can_walk());
        let Self { alarm, intake, .. } = self;
        tokio::select! {
            biased;
            received = intake.next(reads) => Some(received),
            () = alarm.ring() => None,
            // A step of a walk waits until everything that has come in is taken and answers are
            // sent.
            () = tokio::task::yield_now(), if walks => None,
        }
    }

    /// Whether the next step of a walk along waiting requests can be taken.
    fn can_walk(&self) -> bool {
        self.term.may_answer() && (self.term.has_walk() || !self.purges.is_empty())
    }

    async fn publish(&mut self) {
        let Self { term, alarm, .. } = self;
        term.core().publish(|| alarm.now()).await;
    }

    fn take_burst(&mut self, first: Inbound) {
        let began = self.alarm.now();
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

    /// Takes a message at `now`, and returns when that was done.
    fn take(&mut self, now: Time, inbound: Inbound) -> Time {
        let Some(inbound) = self.intake.without_prices(inbound) else { return now };
        let Inbound { endpoint, reply, payload, trace } = inbound;
        let trace = trace.as_deref();
        let counted = endpoint.kind().map(|kind| (kind, self.term.core().tally().refused(kind)));
        match endpoint {
            Endpoint::Permit => self.term.requests(now).take(reply, &payload, RequestTerms::of(None, trace)),
            Endpoint::PermitOf(class) => {
                self.term.requests(now).take(reply, &payload, RequestTerms::of(Some(&class), trace));
            }
            Endpoint::Settle => {
                Settles::at(now, self.term.core(), &mut self.responses, &mut self.log).take(reply, &payload, trace);
            }
            Endpoint::Status => self.answer_status(now, reply, StatusQuery::parse(&payload)),
            Endpoint::Explain => self.explain(now, reply, &payload),
            Endpoint::Purge => self.purges.take(now, self.term.core(), reply, &payload),
            Endpoint::Thaw => LimitOrders::at(now, self.term.core()).thaw(reply, &payload),
            Endpoint::Freeze => LimitOrders::at(now, self.term.core()).freeze(reply, &payload),
            Endpoint::Empty => LimitOrders::at(now, self.term.core()).empty(reply, &payload),
            Endpoint::Echo => self.term.take_echo(now, &payload),
            // Tasks beside the loop answer these messages.
            Endpoint::Usage => {}
            Endpoint::Token if self.shares_token => {}
            Endpoint::Token => self.refuse(reply, "the access token is not shared (`share_token`)".to_owned()),
            Endpoint::Unknown(subject) => self.refuse(reply, format!("`{subject}` is not a subject of the protocol")),
        }
        let done = self.alarm.now();
        let tally = self.term.core().tally();
        tally.decisions.observe(done.since(now));
        if let Some((kind, refused_before)) = counted {
            tally.note_handled(kind, done.since(now), refused_before);
        }
        done
    }

    fn refuse(&mut self, reply: Option<Address>, why: String) {
        if let Some(reply) = reply {
            self.term.core().refuse_invalid(ReplyTo::alone(reply), None, why);
        }
    }

    /// Takes a message whose costs are known by now.
    fn take_priced(&mut self, PricedMessage { inbound, prices }: PricedMessage) {
        if !self.term.reads() {
            self.intake.price_again(inbound);
            return;
        }
        let Inbound { endpoint, reply, payload, trace } = inbound;
        let class = if let Endpoint::PermitOf(class) = &endpoint { Some(class) } else { None };
        let (now, refused_before) = (self.alarm.now(), self.term.core().tally().refused(EndpointKind::Permit));
        let terms = RequestTerms::of(class, trace.as_deref()).with_prices(&prices);
        self.term.requests(now).take(reply, &payload, terms);
        let took = self.alarm.now().since(now);
        self.term.core().tally().note_handled(EndpointKind::Permit, took, refused_before);
    }

    /// Takes the notices of *no responders* that are here. It takes no longer than a burst of
    /// messages.
    fn take_no_responders(&mut self, first: &Message) {
        let began = self.alarm.now();
        self.term.core().take_no_responders(began, first);
        while self.alarm.now().since(began) <= LONGEST_BURST {
            let Some(notice) = self.intake.ready_no_responders() else { return };
            self.term.core().take_no_responders(self.alarm.now(), &notice);
        }
    }

    fn answer_probe(&mut self, reply: Option<Address>) {
        if let Some(reply) = reply {
            let epoch = self.term.core().epoch();
            self.term.core().delivery().outbox().send(reply, &epoch);
        }
    }

    fn answer_status(&mut self, now: Time, reply: Option<Address>, asked: StatusQuery) {
        let Some(reply) = reply else { return };
        let text = match self.reports.known_text(now, asked) {
            Some(known) => known,
            None => {
                let limits_toml = asked.limits_toml.then(|| limits_text(&self.term.core().limits_in_force()));
                let shares = asked.shares.then(|| self.term.core().shares(now));
                let status = Status { limits_toml, shares, ..self.status(now) };
                let text = self.reports.note_text(now, asked, &status);
                self.reports.spend(now, self.alarm.now().since(now));
                text
            }
        };
        self.term.core().delivery().outbox().send_text(reply, text);
    }

    /// A report with all that was counted.
    fn report(&mut self, now: Time) -> Report {
        if let Some(known) = self.reports.known_report(now) {
            return known;
        }
        let status = self.status(now);
        let report = self.term.core().report(now, status);
        self.reports.note_report(now, &report);
        self.reports.spend(now, self.alarm.now().since(now));
        report
    }

    fn status(&mut self, now: Time) -> Status {
        let (provider, rules) = self.limits.status(now);
        let differing = self.differences.of(self.term.core().resource().name());
        let forecasts = self.forecasts.at(now);
        Status { provider, rules, differing, forecasts, ..self.term.status(now) }
    }

    fn explain(&mut self, now: Time, reply: Option<Address>, payload: &[u8]) {
        let Some(reply) = reply else { return };
        if !self.reports.allows(now) {
            return self.term.core().put_off(reply);
        }
        self.term.core().explain(now, reply, Question::parse(payload));
        self.reports.spend(now, self.alarm.now().since(now));
    }

    async fn obey(&mut self, order: LoopRequest) {
        let (now, core) = (self.alarm.now(), self.term.core());
        match order {
            LoopRequest::HandOver(to) => self.hand_over(to).await,
            LoopRequest::CheckpointWritten(number) => self.note_checkpoint(now, number),
            LoopRequest::CheckpointRefused(number) => self.term.note_refused_checkpoint(now, number),
            LoopRequest::StoreLost => {
                core.tally().store_losses += 1;
                core.handle(now, Event::StoreLost);
            }
            LoopRequest::WallClock { origin, ahead_secs } => {
                core.tally().clock_ahead_secs = ahead_secs;
                core.handle(now, Event::WallClock(origin));
            }
            LoopRequest::Provider(news) => self.take_provider_news(now, news),
            LoopRequest::Rules => self.take_rules(now),
            LoopRequest::Report(to) => {
                to.send(self.report(now)).ok();
            }
            LoopRequest::TakeUse(to) => {
                to.send(core.take_use()).ok();
            }
            LoopRequest::Forecasts(forecasts) => self.forecasts.note(now, forecasts),
        }
    }

    /// Notes that the store has taken a checkpoint. Clients with unread requests may have given up
    /// or asked another leader, so they are told to ask again.
    fn note_checkpoint(&mut self, now: Time, number: CheckpointNumber) {
        if self.term.note_checkpoint(now, number) {
            for inbound in self.intake.backlog() {
                self.take(now, inbound);
            }
        }
    }

    fn take_provider_news(&mut self, now: Time, news: ProviderNews) {
        let (core, Some(provider)) = (self.term.core(), &mut self.limits.provider) else { return };
        match news {
            ProviderNews::Limits(contract) => {
                let changed = provider.take_contract(now, core.written(), contract);
                self.change_limits(now, changed);
            }
            ProviderNews::Levels { asked, answered, levels } => {
                let levels = levels_by_limit(core.resource(), answered.since(asked), &levels);
                core.handle(now, Event::Levels { asked, answered, levels });
            }
            ProviderNews::Trouble(error) => {
                core.tally().provider_failures.count(error.kind);
                provider.note_trouble(core.resource().name(), &error);
            }
            ProviderNews::Well => provider.note_well(core.resource().name()),
        }
    }

    /// Takes other rules, and then what the provider's contract makes of them.
    fn take_rules(&mut self, now: Time) {
        let Some(resource) = self.limits.take_rules() else { return };
        let revision = self.limits.revision().get();
        tracing::info!(resource = %resource.name(), revision, "limits count as the rules have them");
        self.change_limits(now, Some(resource));
        let present = self.term.core().written();
        let corrected = self.limits.provider.as_mut().and_then(|provider| provider.keep_to_contract(present));
        self.change_limits(now, corrected);
    }

    fn change_limits(&mut self, now: Time, changed: Option<Resource>) {
        let (core, Some(resource)) = (self.term.core(), changed) else { return };
        let limits = limit_news(core.written(), &resource);
        core.handle(now, Event::Limits(Box::new(resource)));
        let news = News::Limits { limits, epoch: Some(core.epoch()) };
        core.delivery().announce(&news);
    }

    /// Takes what has come in from the connection. Messages without room are counted and logged.
    async fn take_in(&mut self) {
        self.intake.take_in().await;
        let (now, core) = (self.alarm.now(), self.term.core());
        let lost = self.intake.take_lost();
        if lost > 0 {
            core.tally().lost_messages += lost;
            let lost_so_far = core.tally().lost_messages;
            if let Some(left_out) = self.log.admit(now, "lost messages") {
                let resource = core.resource().name();
                tracing::warn!(%resource, lost_so_far, left_out, "more messages come in than can wait; the rest is lost");
            }
        }
        if let Some((kind, left_out)) = self.log.take_overdue(now) {
            tracing::warn!(resource = %core.resource().name(), kind, left_out, "log lines of this kind were left out");
        }
    }

    /// Does what is due. While answers can't go out, no start is committed. Otherwise the answers
    /// would all go out after the reconnect, and their calls would come at once.
    fn keep_time(&mut self) {
        if !self.term.may_answer() {
            return;
        }
        let (now, core) = (self.alarm.now(), self.term.core());
        if let Some(Wakeup { reason, .. }) = core.next_wakeup().filter(|wakeup| wakeup.at <= now) {
            tracing::trace!(resource = %core.resource().name(), ?reason, "the core wakes up");
            core.handle(now, Event::Wake);
        }
        core.probe_on(now);
        self.purges.step(now, core);
    }

    /// Gives the resource up. Waiting requests are sent elsewhere first, because the state may take
    /// long to collect.
    async fn hand_over(&mut self, to: oneshot::Sender<Handover>) {
        self.term.core().send_elsewhere(self.alarm.now()).await;
        to.send(self.term.handover(self.alarm.now(), self.limits.revision())).ok();
    }

    /// Sends all requests elsewhere that wait or have come in. A leader that was replaced leaves
    /// requests over NATS to its successor, which has received them too.
    async fn send_last_answers(&mut self, handing_over: bool) -> anyhow::Result<()> {
        self.term.core().send_elsewhere(self.alarm.now()).await;
        if handing_over {
            self.intake.drain().await?;
            while let Some(inbound) = self.intake.last().await {
                self.take(self.alarm.now(), inbound);
                self.term.core().delivery().publish().await;
            }
        }
        for inbound in self.intake.close_here() {
            self.take(self.alarm.now(), inbound);
        }
        self.term.core().delivery().flush().await
    }
}
