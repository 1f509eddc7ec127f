//! The loop that answers requests for one resource: one subscription, one thread, one core.

use crate::serve::limits::effective_limits::{InForce, NewRules};
use crate::serve::limits::limit_change::LimitChange;
use crate::serve::limits::limit_sources::LimitSources;
use crate::serve::limits::provider_view::{ProviderNews, levels_by_limit};
use crate::serve::messages::inbound::{Address, Endpoint, Inbound};
use crate::serve::messages::reply::ReplyTo;
use crate::serve::permits::alarm::Alarm;
use crate::serve::permits::answers::core_driver::CoreDriver;
use crate::serve::permits::answers::delivery::Delivery;
use crate::serve::permits::checkpoint_queue::CheckpointQueue;
use crate::serve::permits::incoming::intake::{Intake, Received};
use crate::serve::permits::incoming::permit_requests::PermitRequests;
use crate::serve::permits::incoming::purges::Purges;
use crate::serve::permits::incoming::response_reader::ResponseReader;
use crate::serve::permits::incoming::settles::Settles;
use crate::serve::permits::leader_announcement::LeaderAnnouncement;
use crate::serve::permits::loop_handle::LoopChannels;
use crate::serve::permits::order::{Handover, Order};
use crate::serve::permits::watch::leadership_check::{Finding, LeadershipCheck};
use crate::serve::permits::watch::loopback_check::LoopbackCheck;
use crate::serve::permits::watch::stall_detector::{HEARTBEAT, ProcessWatch};
use async_nats::{Client, Message, SubscribeError};
use rampmeter_dialects::Reader;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::event::Event as News;
use rampmeter_protocol::explain::Question;
use rampmeter_protocol::status::Status;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::durability::mark::MarkNumber;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::scheduler::Scheduler;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Messages that are taken before answers are sent: enough to share the cost of sending, few
/// enough to delay no answer.
const BURST: usize = 16;
/// How long such a burst lasts: one message may have many requests in it.
const LONGEST_BURST: Span = Span::from_nanos(250_000);
/// How often a lost connection is looked at.
const RECONNECT_POLL: Span = Span::from_millis(5);
/// How long the last answers may take to be sent: a small part of what a graceful stop may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a loop is made of.
#[derive(Debug)]
pub struct Parts {
    /// The core, restored.
    pub core: Scheduler<ReplyTo>,
    /// Reads the upstream's answers.
    pub reader: Reader,
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
    /// The checkpoint that counts once the leader has listened and no worker knows of another one.
    pub unconfirmed: Option<MarkNumber>,
    /// The kind of the provider of the limits, if the resource has a provider.
    pub provider: Option<&'static str>,
    /// The rules that count.
    pub rules: InForce,
}

/// The loop.
///
/// Between two turns every event that has happened is in the core, and every answer is published.
#[derive(Debug)]
pub struct PermitLoop {
    alarm: Alarm,
    intake: Intake,
    core: CoreDriver,
    leadership: LeadershipCheck,
    loopback: LoopbackCheck,
    announcement: LeaderAnnouncement,
    checkpoints: CheckpointQueue,
    limits: LimitSources,
    responses: ResponseReader,
    purges: Purges,
}

impl PermitLoop {
    /// Subscribes to all that concerns the resource.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn subscribe(client: Client, parts: Parts) -> Result<Self, SubscribeError> {
        let Parts { core, reader, subjects, clock, process, leader, channels, unconfirmed, provider, rules } = parts;
        let LoopChannels { orders, inbound, checkpoints, opened } = channels;
        let name = core.resource().name().clone();
        let delivery = Delivery::new(client.clone(), &subjects, &name);
        let scope = (&subjects, &name, &*leader);
        Ok(PermitLoop {
            alarm: Alarm::new(clock),
            intake: Intake::subscribe(&client, scope, delivery.reports(), (orders, inbound)).await?,
            core: CoreDriver::new(core, delivery),
            leadership: LeadershipCheck::new(clock.now(), unconfirmed, process),
            loopback: LoopbackCheck::new(clock.now(), &leader),
            announcement: LeaderAnnouncement::new(leader, opened),
            checkpoints: CheckpointQueue::new(checkpoints),
            limits: LimitSources::new(rules, provider),
            responses: ResponseReader::new(reader),
            purges: Purges::default(),
        })
    }

    /// Answers until the orders end or the connection is closed for good.
    pub async fn run(mut self) {
        let mut handing_over = false;
        match self.leadership.is_listening() {
            false => self.begin(),
            // Workers that wait for a former leader ask again while this one listens.
            true => self.announce(),
        }
        loop {
            // 1. What has been promised needs room under a checkpoint; the next one is written ahead of need.
            self.keep_heard();
            self.keep_checkpointed();
            // 2. Answers go out, unless they are so old that another scheduler may lead.
            self.watch_out();
            self.publish().await;
            // 3. One thing happens, or some messages of a kind.
            let received = self.receive().await;
            self.watch_out();
            match received {
                Some(Received::Order(order)) => {
                    handing_over |= matches!(order, Order::HandOver(_));
                    self.obey(order).await;
                }
                Some(Received::Inbound(inbound)) if !self.leadership.reads() => self.intake.put_back(inbound),
                Some(Received::Inbound(inbound)) => self.take_burst(inbound),
                Some(Received::Probe(reply)) => self.answer_probe(reply),
                Some(Received::Report(report)) => self.take_reports(&report),
                Some(Received::End) => break,
                None => self.notice_late_echo(),
            }
            // 4. What is due is done, whether or not a timer said so.
            self.keep_time();
        }
        match tokio::time::timeout(FAREWELL, self.say_farewell(handing_over)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the last answers may be lost"),
            Err(elapsed) => tracing::debug!(%elapsed, "the last answers may be lost"),
        }
    }

    /// What has come in; nothing if the time of the next look has come first.
    async fn receive(&mut self) -> Option<Received> {
        self.alarm.set(self.next_look());
        let (reads, more) = (self.leadership.reads(), self.has_walk());
        let Self { alarm, intake, .. } = self;
        tokio::select! {
            biased;
            received = intake.next(reads) => Some(received),
            () = alarm.ring() => None,
            // What has come in goes first, and what goes out is sent meanwhile.
            () = tokio::task::yield_now(), if more => None,
        }
    }

    /// When there is something to do if nothing happens.
    fn next_look(&self) -> Time {
        let now = self.alarm.now();
        let heartbeat = now + HEARTBEAT;
        match (self.core.is_connected(), self.leadership.grants()) {
            (false, _) => now + RECONNECT_POLL,
            (true, false) => heartbeat,
            (true, true) => {
                let checkpoint = self.next_checkpoint(now);
                let echo = self.loopback.next_look(now, self.core.grants());
                let due = checkpoint.into_iter().chain(self.core.next_wakeup());
                due.chain([heartbeat, echo]).min().unwrap_or(heartbeat)
            }
        }
    }

    /// When the next checkpoint is to be handed out. A loop that hears nothing writes none, so that
    /// it does not lead for ever.
    fn next_checkpoint(&self, now: Time) -> Option<Time> {
        let hears = self.loopback.is_alive(now);
        self.checkpoints.next(self.core.next_checkpoint()).filter(|_| hears)
    }

    fn may_answer(&self) -> bool {
        self.core.is_connected() && self.leadership.reads()
    }

    /// Whether the next step of a walk along waiting requests can be taken.
    fn has_walk(&self) -> bool {
        self.may_answer() && (self.core.has_walk() || !self.purges.is_empty())
    }

    async fn publish(&mut self) {
        let Self { core, alarm, .. } = self;
        core.publish(|| alarm.now()).await;
    }

    fn take_burst(&mut self, first: Inbound) {
        let began = self.alarm.now();
        let mut now = self.take(began, first);
        for _ in 1..BURST {
            if !self.leadership.reads() || now.since(began) > LONGEST_BURST {
                return;
            }
            if let Some(report) = self.intake.ready_report() {
                return self.take_reports(&report);
            }
            let Some(inbound) = self.intake.ready_message() else { return };
            now = self.take(now, inbound);
        }
    }

    /// Takes a message at `now`, and returns when that was done.
    fn take(&mut self, now: Time, inbound: Inbound) -> Time {
        let Self { core, leadership, responses, purges, .. } = self;
        let Inbound { endpoint, reply, payload } = inbound;
        match endpoint {
            Endpoint::Permit => PermitRequests::at(now, core, leadership).take(reply, &payload),
            Endpoint::Settle => Settles::at(now, core, responses).take(reply, &payload),
            Endpoint::Status => self.answer_status(now, reply),
            Endpoint::Explain => self.explain(now, reply, &payload),
            Endpoint::Purge => purges.take(now, core, reply, &payload),
            Endpoint::Echo => self.hear_echo(now, &payload),
            Endpoint::Unknown(subject) => {
                if let Some(reply) = reply {
                    let message = format!("`{subject}` is not a subject of the protocol");
                    core.refuse_invalid(ReplyTo::alone(reply), None, message);
                }
            }
        }
        let done = self.alarm.now();
        self.core.tally().decisions.observe(done.since(now));
        done
    }

    /// Takes the reports that are here, for as long as a burst of messages may last.
    fn take_reports(&mut self, first: &Message) {
        let began = self.alarm.now();
        self.core.take_report(began, first);
        while self.alarm.now().since(began) <= LONGEST_BURST {
            let Some(report) = self.intake.ready_report() else { return };
            self.core.take_report(self.alarm.now(), &report);
        }
    }

    fn answer_probe(&mut self, reply: Option<Address>) {
        if let Some(reply) = reply {
            let epoch = self.core.epoch();
            self.core.delivery().outbox().send(reply, &epoch);
        }
    }

    fn answer_status(&mut self, now: Time, reply: Option<Address>) {
        if let Some(reply) = reply {
            let status = self.status(now);
            self.core.delivery().outbox().send(reply, &status);
        }
    }

    fn status(&mut self, now: Time) -> Status {
        let (provider, rules) = self.limits.status(now);
        Status { provider, rules, ..self.core.status(now, self.announcement.leader()) }
    }

    fn explain(&mut self, now: Time, reply: Option<Address>, payload: &[u8]) {
        let Some(reply) = reply else { return };
        match Question::parse(payload) {
            Ok(question) => self.core.explain(now, reply, question.id),
            Err(invalid) => {
                self.core.refuse_invalid(ReplyTo::alone(reply), invalid.id.as_ref(), invalid.to_string());
            }
        }
    }

    async fn obey(&mut self, order: Order) {
        let now = self.alarm.now();
        match order {
            Order::HandOver(to) => self.hand_over(to).await,
            Order::CheckpointWritten(number) => self.note_checkpoint(now, number),
            Order::StoreLost => {
                self.core.tally().store_losses += 1;
                self.core.handle(now, Event::StoreLost);
            }
            Order::WallClock { unix_at_origin, ahead_secs } => {
                self.core.tally().clock_ahead_secs = ahead_secs;
                self.core.handle(now, Event::WallClock { unix_at_origin });
            }
            Order::Provider(news) => self.hear_provider(now, news),
            Order::Rules(rules) => self.take_rules(now, rules),
            Order::Report(to) => {
                let status = self.status(now);
                to.send(self.core.report(status)).ok();
            }
        }
    }

    /// The store has taken a checkpoint: no other scheduler led at that time.
    fn note_checkpoint(&mut self, now: Time, number: MarkNumber) {
        self.checkpoints.note_written();
        self.core.tally().checkpoints += 1;
        // This scheduler leads alone, but a worker has seen another leader: the first state of this
        // term was not the last one that was written.
        if self.core.settles_doubt(number)
            && let Some(epoch) = self.leadership.settle()
        {
            self.core.tally().store_went_back += 1;
            self.core.handle(now, Event::StoreWentBack { epoch });
            return self.begin();
        }
        self.core.handle(now, Event::Marked(number));
        if self.core.is_trusted()
            && let Some(token) = self.leadership.clear(now)
        {
            self.core.delivery().send_echo(&token);
            // Clients whose requests were left unread may have given up, or have asked another
            // leader: they are to ask again.
            for inbound in self.intake.backlog() {
                self.take(now, inbound);
            }
        }
    }

    fn hear_provider(&mut self, now: Time, news: ProviderNews) {
        match news {
            ProviderNews::Limits(contract) => {
                let change = self.limits.take_contract(now, self.core.resource(), contract);
                self.change_limits(now, change);
            }
            ProviderNews::Levels { asked, heard, levels } => {
                let levels = levels_by_limit(self.core.resource(), heard.since(asked), &levels);
                self.core.handle(now, Event::Levels { asked, heard, levels });
            }
            ProviderNews::Trouble(error) => {
                self.core.tally().provider_failures.count(error.kind);
                self.limits.note_provider_trouble(self.core.resource().name(), &error);
            }
            ProviderNews::Well => self.limits.note_provider_well(self.core.resource().name()),
        }
    }

    /// Goes on under other rules, and then under what the provider's contract makes of them.
    fn take_rules(&mut self, now: Time, rules: NewRules) {
        if let Some(change) = self.limits.take_rules(self.core.resource(), rules) {
            self.change_limits(now, Some(change));
            let change = self.limits.keep_to_contract(self.core.resource());
            self.change_limits(now, change);
        }
    }

    fn change_limits(&mut self, now: Time, change: Option<LimitChange>) {
        let Some((resource, news)) = change.map(LimitChange::into_parts) else { return };
        self.core.handle(now, Event::Limits(resource));
        let event = News::Limits { limits: news, epoch: Some(self.core.epoch()) };
        self.core.announce(&event);
    }

    /// Notices a standstill, and the end of listening.
    fn watch_out(&mut self) {
        let now = self.alarm.now();
        match self.leadership.look(now) {
            Some(Finding::StoodStill(away)) => {
                let resource = self.core.resource().name();
                tracing::warn!(%resource, standstill = %away, "this process stood still; checking who leads");
                self.core.tally().standstills += 1;
                self.loopback.lose(now);
                self.core.delivery().outbox().forget();
                self.core.handle(now, Event::Doubt);
            }
            Some(Finding::Listened(checkpoint)) => {
                self.core.handle(now, Event::Marked(checkpoint));
                self.begin();
            }
            None => {}
        }
    }

    /// Sends the echo that is due, as long as it can be heard.
    fn keep_heard(&mut self) {
        let now = self.alarm.now();
        if !self.may_answer() {
            // What is not read cannot be heard.
            self.loopback.lose(now);
        }
        if !self.core.is_connected() {
            return;
        }
        if let Some(echo) = self.loopback.send(now, self.core.grants()) {
            self.core.delivery().send_echo(&echo);
        }
    }

    fn hear_echo(&mut self, now: Time, payload: &[u8]) {
        if let Some(heard) = self.loopback.hear(now, payload) {
            if heard.was_late {
                self.core.handle(now, Event::HeldUp);
            }
            self.core.handle(now, Event::Delivered(heard.sent_at));
        }
        self.leadership.hear_echo(payload);
    }

    fn notice_late_echo(&mut self) {
        let now = self.alarm.now();
        if self.loopback.notice_late(now) {
            self.core.handle(now, Event::HeldUp);
        }
    }

    /// Hands out the next checkpoint if it is due.
    fn keep_checkpointed(&mut self) {
        let now = self.alarm.now();
        let due = self.next_checkpoint(now).is_some_and(|due| due <= now);
        if !due || self.leadership.is_listening() || !self.core.is_connected() {
            return;
        }
        if let Some(pending) = self.core.checkpoint(now, self.limits.revision()) {
            self.checkpoints.push(pending);
        }
    }

    /// Does what is due. A start that no worker can be told of in time is not committed: its answer
    /// would be sent after the reconnect, and all calls of the pause would come at once.
    fn keep_time(&mut self) {
        if !self.may_answer() {
            return;
        }
        let now = self.alarm.now();
        if self.core.next_wakeup().is_some_and(|wakeup| wakeup <= now) {
            self.core.handle(now, Event::Wake);
        }
        self.core.probe_on(now);
        self.purges.step(now, &mut self.core);
    }

    /// Permits are granted from now on.
    fn begin(&mut self) {
        self.announcement.open();
        self.announce();
    }

    fn announce(&mut self) {
        let news = self.announcement.news(self.core.epoch());
        self.core.announce(&news);
    }

    /// Gives the resource up. Waiting requests are sent elsewhere first, because the state may take
    /// long to collect.
    async fn hand_over(&mut self, to: oneshot::Sender<Handover>) {
        self.core.send_elsewhere(self.alarm.now()).await;
        to.send(self.core.handover(self.alarm.now(), self.limits.revision())).ok();
    }

    /// Sends all requests elsewhere that wait or have come in. A leader that was replaced leaves
    /// requests over NATS to its successor, which has received them too.
    async fn say_farewell(&mut self, handing_over: bool) -> anyhow::Result<()> {
        self.core.send_elsewhere(self.alarm.now()).await;
        if handing_over {
            self.intake.drain().await?;
            while let Some(inbound) = self.intake.last().await {
                self.take(self.alarm.now(), inbound);
                self.core.delivery().publish().await;
            }
        }
        for inbound in self.intake.close_here() {
            self.take(self.alarm.now(), inbound);
        }
        self.core.delivery().flush().await
    }
}
