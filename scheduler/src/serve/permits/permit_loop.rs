//! The loop that answers requests for one resource: one subscription, one thread, one core.

use crate::serve::limits::effective_limits::{InForce, NewRules};
use crate::serve::limits::provider_news::{ProviderNews, ProviderView};
use crate::serve::messages::inbound::{Address, Endpoints, Inbound};
use crate::serve::messages::reply::{Outbox, ReplyTo};
pub use crate::serve::permits::handover::Handover;
use crate::serve::permits::leadership_state::LeadershipState;
use crate::serve::permits::loopback_check::LoopbackCheck;
use crate::serve::permits::purging::Purging;
use crate::serve::permits::response_reader::ResponseReader;
use crate::serve::permits::stall_detector::{HEARTBEAT, ProcessWatch, StallDetector, uptime};
use crate::serve::permits::tally::Tally;
use crate::serve::permits::undelivered::Undelivered;
use crate::store::{MAX_PERMITS, Moment};
use async_nats::{Client, Message, Subscriber};
use futures::{FutureExt, StreamExt};
use rampmeter_dialects::Reader;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::event::Event as News;
use rampmeter_protocol::status::{Counters, Status};
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::command::{Announcement, Command};
use rampmeter_scheduler_core::durability::checkpoint::Checkpoint;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::ids::CheckpointNumber;
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_scheduler_core::wire;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

/// Messages that are taken before answers are sent: enough to share the cost of sending, few
/// enough to keep nobody waiting.
const BURST: usize = 16;
/// How long such a burst lasts: a message of one may have many requests in it.
pub(crate) const LONGEST_BURST: Span = Span::from_nanos(250_000);
/// How often a lost connection is looked at.
const RECONNECT_POLL: Span = Span::from_millis(5);
/// How long the last answers may take to be sent; a small part of what a graceful stop may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// What others want of the loop. Dropping the sender ends it.
#[derive(Debug)]
pub enum Order {
    /// Grant nothing more, send everybody elsewhere, and say what a successor must know.
    HandOver(oneshot::Sender<Handover>),
    /// The store holds this mark.
    Marked(CheckpointNumber),
    /// The store does not take marks.
    StoreLost,
    /// Cut windows by a wall clock that showed this at the origin of time.
    WallClock {
        /// In nanoseconds since 1970.
        unix_at_origin: u64,
        /// How far the clock of this machine is ahead of it.
        ahead_secs: f64,
    },
    /// Hear what the provider of the limits says, or that it says nothing.
    Provider(ProviderNews),
    /// Go on under other rules.
    Rules(NewRules),
    /// Say how things stand.
    Report(oneshot::Sender<Report>),
}

/// A mark to be written. The loop takes no other before it has heard of this one.
#[derive(Clone, Debug)]
pub struct Pending {
    /// The mark.
    pub mark: Checkpoint,
    /// The epoch.
    pub epoch: u64,
    /// When it was taken.
    pub moment: Moment,
    /// The edition of the rules that counted.
    pub rules: u64,
}

/// How things stand.
#[derive(Clone, Debug)]
pub struct Report {
    /// As the protocol has it.
    pub status: Status,
    /// What was counted.
    pub tally: Tally,
    /// Permits that are remembered.
    pub remembered: usize,
}

/// What a loop is made of.
#[derive(Debug)]
pub struct Parts {
    /// The core, restored.
    pub core: Scheduler<ReplyTo>,
    /// Reads what the upstream answers.
    pub reader: Reader,
    /// Where it subscribes.
    pub subjects: Subjects,
    /// The clock that the core was restored with.
    pub clock: Clock,
    /// Tells when this process stood still.
    pub process: Arc<ProcessWatch>,
    /// The name of this scheduler process.
    pub leader: String,
    /// What others want.
    pub orders: mpsc::Receiver<Order>,
    /// What this process asks.
    pub inbound: mpsc::Receiver<Inbound>,
    /// Where marks go.
    pub marks: mpsc::Sender<Pending>,
    /// The mark that is to count once nobody has been heard who knows of another leader.
    pub listening: Option<CheckpointNumber>,
    /// Hears when permits are granted.
    pub open: oneshot::Sender<()>,
    /// The kind of the provider of the limits, if somebody is asked for them.
    pub provider: Option<&'static str>,
    /// The rules that count.
    pub rules: InForce,
}

/// The loop.
pub struct PermitLoop {
    pub(crate) client: Client,
    pub(crate) subscription: Subscriber,
    probes: Subscriber,
    /// Where NATS says which answers have reached nobody.
    pub(crate) reports: Subscriber,
    pub(crate) core: Scheduler<ReplyTo>,
    pub(crate) response_reader: ResponseReader,
    pub(crate) clock: Clock,
    pub(crate) subjects: Subjects,
    leader: String,
    orders: mpsc::Receiver<Order>,
    pub(crate) inbound: mpsc::Receiver<Inbound>,
    marks: mpsc::Sender<Pending>,
    open: Option<oneshot::Sender<()>>,
    /// Whether a mark is being written.
    writing: bool,
    /// Whether this loop gives the resource up by itself.
    pub(crate) handing_over: bool,
    pub(crate) endpoints: Endpoints,
    event: Address,
    pub(crate) outbox: Outbox,
    pub(crate) undelivered: Undelivered,
    /// Orders to end waits, the first of which is being carried out.
    pub(crate) purges: VecDeque<Purging>,
    pub(crate) tally: Tally,
    pub(crate) stall_detector: StallDetector,
    pub(crate) loopback_check: LoopbackCheck,
    /// Whether its song is late, and so are answers.
    pub(crate) held_up: bool,
    pub(crate) leadership: LeadershipState,
    /// What was read just before this loop began to doubt.
    pub(crate) unread: Option<Inbound>,
    /// The highest epoch that a worker has seen, if it is above ours.
    pub(crate) seen_epoch: Option<u64>,
    /// What is known of the provider of the limits.
    pub(crate) provider: Option<ProviderView>,
    /// The rules that count.
    pub(crate) rules: InForce,
    /// Wakes the loop at the next look or before: to set it anew costs more than to be woken for nothing at times.
    alarm: Pin<Box<Sleep>>,
}

/// What woke the loop.
enum Woken {
    Order(Option<Order>),
    Inbound(Option<Inbound>),
    Probe(Option<Message>),
    Report(Option<Message>),
    Time,
}

impl PermitLoop {
    /// Subscribes to everything that concerns the resource.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn subscribe(client: Client, parts: Parts) -> Result<Self, async_nats::SubscribeError> {
        let Parts { core, reader, subjects, clock, process, leader, orders, inbound, marks, listening, open, .. } =
            parts;
        let Parts { provider, rules, .. } = parts;
        let name = core.resource().name().clone();
        let everything = format!("{}.*.{name}", subjects.prefix());
        let endpoints = Endpoints::new(&subjects, &name);
        let undelivered = Undelivered::new(&subjects, &name);
        Ok(PermitLoop {
            subscription: client.subscribe(everything).await?,
            probes: client.subscribe(subjects.probe(&name, &leader)).await?,
            reports: client.subscribe(undelivered.all()).await?,
            client,
            tally: Tally::new(core.resource().classes().len()),
            stall_detector: StallDetector::new(process, uptime(clock.now())),
            loopback_check: LoopbackCheck::new(clock.now(), &leader),
            held_up: false,
            core,
            response_reader: ResponseReader::new(reader),
            clock,
            leader,
            orders,
            inbound,
            marks,
            open: Some(open),
            writing: false,
            handing_over: false,
            endpoints,
            event: Address::Subject(subjects.event(&name).into()),
            subjects,
            outbox: Outbox::default(),
            undelivered,
            purges: VecDeque::new(),
            leadership: LeadershipState::at_first(clock.now(), listening),
            unread: None,
            seen_epoch: None,
            provider: provider.map(ProviderView::new),
            rules,
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
        })
    }

    /// Answers until the orders end or the connection is closed for good.
    pub async fn run(mut self) {
        match self.leadership {
            LeadershipState::Sure => self.begin(),
            // Workers that wait for a former leader ask again, within the time that this one listens.
            LeadershipState::Listening { .. } => self.announce(),
            LeadershipState::Rechecking | LeadershipState::Clearing { .. } => {}
        }
        loop {
            // 1. Whatever has been promised needs room under a mark; the next one is written ahead of need.
            self.keep_marked();
            // 2. Answers go out, unless so much time has passed since they were made that somebody else may lead.
            self.watch_out();
            self.publish().await;
            while self.give_up_on_own() {
                self.publish().await;
            }
            // 3. One thing happens, or some messages of a kind.
            let woken = self.woken().await;
            self.watch_out();
            match woken {
                Woken::Order(Some(order)) => self.obey(order).await,
                Woken::Inbound(Some(inbound)) if self.leadership == LeadershipState::Rechecking => {
                    self.unread = Some(inbound);
                }
                Woken::Inbound(Some(inbound)) => self.take_burst(inbound),
                Woken::Probe(Some(probe)) => self.answer_probe(probe),
                Woken::Report(Some(report)) => self.take_reports(&report),
                Woken::Time => self.listen_for_song(),
                Woken::Order(None) | Woken::Inbound(None) | Woken::Probe(None) | Woken::Report(None) => break,
            }
            // 4. What is due is done, whether or not a timer said so.
            self.keep_time();
        }
        match tokio::time::timeout(FAREWELL, self.say_farewell()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the last answers may be lost"),
            Err(elapsed) => tracing::debug!(%elapsed, "the last answers may be lost"),
        }
    }

    async fn woken(&mut self) -> Woken {
        let look = tokio::time::Instant::from_std(self.clock.instant(self.next_look()));
        if self.alarm.is_elapsed() || look < self.alarm.deadline() {
            self.alarm.as_mut().reset(look);
        }
        let (reads, more) = (self.leadership != LeadershipState::Rechecking, self.has_more_to_do());
        tokio::select! {
            biased;
            order = self.orders.recv() => Woken::Order(order),
            probe = self.probes.next() => Woken::Probe(probe),
            report = self.reports.next() => Woken::Report(report),
            message = self.subscription.next(), if reads => Woken::Inbound(message.map(|message| self.endpoints.inbound(message))),
            Some(inbound) = self.inbound.recv(), if reads => Woken::Inbound(Some(inbound)),
            () = &mut self.alarm => Woken::Time,
            // What has come in goes first, and what goes out is sent meanwhile.
            () = tokio::task::yield_now(), if more => Woken::Time,
        }
    }

    /// When there is something to do if nothing happens.
    fn next_look(&self) -> Time {
        let now = self.clock.now();
        let heartbeat = now + HEARTBEAT;
        match (self.is_connected(), self.leadership) {
            (false, _) => now + RECONNECT_POLL,
            (true, LeadershipState::Rechecking | LeadershipState::Listening { .. }) => heartbeat,
            (true, LeadershipState::Sure | LeadershipState::Clearing { .. }) => {
                let writes = !self.writing && self.loopback_check.is_alive(now);
                let mark = self.core.next_checkpoint().filter(|_| writes);
                let wakeup = self.core.next_wakeup().map(|wakeup| wakeup.at);
                mark.into_iter().chain(wakeup).chain([heartbeat, self.next_song(now)]).min().unwrap_or(heartbeat)
            }
        }
    }

    pub(crate) fn may_answer(&self) -> bool {
        self.is_connected() && self.leadership != LeadershipState::Rechecking
    }

    fn take_burst(&mut self, first: Inbound) {
        let began = self.clock.now();
        let mut now = self.take(began, first);
        for _ in 1..BURST {
            if self.leadership == LeadershipState::Rechecking || now.since(began) > LONGEST_BURST || self.took_reports()
            {
                return;
            }
            let Some(inbound) = self.next_inbound() else { return };
            now = self.take(now, inbound);
        }
    }

    /// What has come in. What this process asks goes first here: a burst begins with what came over NATS, wherever something did.
    fn next_inbound(&mut self) -> Option<Inbound> {
        let here = self.inbound.try_recv().ok();
        here.or_else(|| Some(self.endpoints.inbound(self.subscription.next().now_or_never()??)))
    }

    pub(crate) fn status(&mut self, now: Time) -> Status {
        let limited_by = self.core.limited_by(now);
        Status {
            limits: self.core.limit_status(now),
            classes: self.core.class_status(now),
            resource: self.core.resource().name().clone(),
            epoch: self.core.epoch(),
            leader: self.leader.clone(),
            // The core does not see what is refused before it.
            counters: Counters { refused: self.tally.refusals.total(), ..self.core.counters() },
            limited_by: limited_by.map(|limit| self.core.resource().limits()[limit.index()].spec().name.clone()),
            provider: self.provider.as_ref().map(|provider| provider.status(now)),
            rules: self.rules.status.clone(),
            corrections: self.core.corrections(),
        }
    }

    pub(crate) fn handle(&mut self, now: Time, event: Event<ReplyTo>) {
        self.core.handle(now, event);
        while let Some(command) = self.core.poll_command() {
            self.answer(now, command);
        }
    }

    pub(crate) fn answer(&mut self, now: Time, command: Command<ReplyTo>) {
        self.count(&command);
        if let Command::Announce(announcement) = &command {
            return self.tell_everybody(announcement);
        }
        let waited = self.waited(&command);
        let Self { outbox, core, .. } = self;
        let left = match &command {
            Command::Grant(grant) if grant.to.tells_left() => core.left(now, &grant.id),
            Command::Grant(_)
            | Command::Queued { .. }
            | Command::Refuse { .. }
            | Command::Settled { .. }
            | Command::Announce(_) => Vec::new(),
        };
        wire::answer(core.resource(), (now, core.epoch()), command, left, |to, answer| {
            outbox.answer_waiting(to, waited, answer);
        });
    }

    /// Tells everybody.
    fn tell_everybody(&mut self, announcement: &Announcement) {
        let news = wire::news(self.core.resource(), self.core.epoch(), announcement);
        self.publish_event(&news);
    }

    pub(crate) fn publish_event(&mut self, event: &News) {
        self.outbox.send(self.event.clone(), event);
    }

    fn count(&mut self, command: &Command<ReplyTo>) {
        match command {
            Command::Grant(grant) if !grant.repeated => {
                self.loopback_check.note_grant();
                self.tally.waits[grant.class.index()].observe(grant.waited + grant.delay);
            }
            Command::Refuse { refusal, .. } => self.tally.refusals.count(refusal.code()),
            Command::Grant(_) | Command::Queued { .. } | Command::Settled { .. } | Command::Announce(_) => {}
        }
    }

    /// Does what is due, whether or not a timer said so. A start that nobody can be told of in time is not committed:
    /// the answer would be sent after the reconnect, and all calls of the pause would come at once.
    fn keep_time(&mut self) {
        let now = self.clock.now();
        let may_answer = self.may_answer();
        if may_answer && self.core.next_wakeup().is_some_and(|wakeup| wakeup.at <= now) {
            self.handle(now, Event::Wake);
        }
        if may_answer {
            self.probe_on(now);
            self.purge_on(now);
        }
    }

    /// Hands the next mark out to be written: as long as messages come in, or a loop that hears nothing would lead for ever.
    fn keep_marked(&mut self) {
        let now = self.clock.now();
        if !self.is_connected() || self.leadership == LeadershipState::Rechecking {
            // What is not read can't be heard.
            self.loopback_check.lose(now);
        }
        if !self.is_connected() {
            return;
        }
        if let Some(song) = self.loopback_check.sing(now) {
            self.outbox.send(self.own_echo(), &song);
        }
        let due = self.core.next_checkpoint().is_some_and(|due| due <= now) && !self.writing;
        let listens = matches!(self.leadership, LeadershipState::Listening { .. });
        if !due || listens || !self.loopback_check.is_alive(now) {
            return;
        }
        let Some(mark) = self.core.checkpoint(now) else { return };
        let pending = Pending { mark, epoch: self.core.epoch(), moment: Moment::now(), rules: self.rules.revision };
        self.writing = self.marks.try_send(pending).is_ok();
    }

    /// Permits are granted from now on.
    pub(crate) fn begin(&mut self) {
        if let Some(open) = self.open.take() {
            open.send(()).ok();
        }
        self.announce();
    }

    /// Whoever waits learns that somebody new leads.
    pub(crate) fn announce(&mut self) {
        let event = News::Leader { epoch: self.core.epoch(), leader: self.leader.clone() };
        self.outbox.send(self.event.clone(), &event);
    }

    fn answer_probe(&mut self, probe: Message) {
        if let Some(reply) = probe.reply.filter(|reply| self.subjects.may_answer_to(reply)) {
            self.outbox.send(Address::Subject(reply), &self.core.epoch());
        }
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    async fn obey(&mut self, order: Order) {
        let now = self.clock.now();
        match order {
            Order::HandOver(to) => {
                self.handing_over = true;
                // First, as it may take long to collect the state.
                self.send_elsewhere().await;
                let now = self.clock.now();
                let snapshot = self.core.snapshot(now, MAX_PERMITS);
                let (epoch, moment) = (self.core.epoch(), Moment::now());
                let handover = Handover { snapshot, epoch, moment, rules: self.rules.revision };
                to.send(handover).ok();
            }
            Order::Marked(number) => {
                self.writing = false;
                self.marked(now, number);
            }
            Order::StoreLost => {
                self.tally.store_losses += 1;
                self.handle(now, Event::StoreLost);
            }
            Order::WallClock { unix_at_origin, ahead_secs } => {
                self.tally.clock_ahead_secs = ahead_secs;
                self.handle(now, Event::WallClock { unix_at_origin });
            }
            Order::Provider(news) => self.hear_provider(now, news),
            Order::Rules(rules) => self.take_rules(now, rules),
            Order::Report(to) => {
                let (tally, remembered) = (self.tally.clone(), self.core.remembered());
                to.send(Report { status: self.status(now), tally, remembered }).ok();
            }
        }
    }

    /// Where this loop's own messages come in again.
    pub(crate) fn own_echo(&self) -> Address {
        Address::Subject(self.endpoints.echo.clone())
    }
}
