//! The loop that answers requests for one resource: one subscription, one thread, one core.

use super::reply::{Outbox, ReplyTo, refusal};
use super::tally::Tally;
use crate::connection::round_trip;
use async_nats::{Client, Message, Subject, Subscriber};
use futures::{FutureExt, StreamExt};
use rampmeter_protocol::clock::{Clock, unix_ms};
use rampmeter_protocol::code::Code;
use rampmeter_protocol::explain::Question;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::incoming::{Incoming, Invalid};
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::status::{Counters, Status};
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::command::Command;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_scheduler_core::snapshot::{LevelMark, Snapshot};
use rampmeter_scheduler_core::wire;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Messages that are taken before answers are sent: enough to share the cost of sending, few
/// enough to keep nobody waiting.
const BURST: usize = 16;
/// How often levels are handed to the store while they change.
const SAVE_EVERY: Span = Span::from_millis(200);
/// How far the clocks of worker and scheduler may differ before a request counts as forgotten.
const CLOCK_TOLERANCE: Span = Span::from_secs(60);
/// How often a lost connection is looked at.
const RECONNECT_POLL: Span = Span::from_millis(5);
/// How long the last answers may take to be sent; a small part of what a graceful stop may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// The status that an upstream answers with when it is asked too much.
const TOO_MANY_REQUESTS: u16 = 429;

/// What others want of the loop. Dropping the sender ends it.
#[derive(Debug)]
pub enum Order {
    /// Grant nothing more, send everybody elsewhere, and say what a successor must know.
    HandOver(oneshot::Sender<Handover>),
    /// Say how things stand.
    Report(oneshot::Sender<Report>),
}

/// The last word of a leader.
#[derive(Debug)]
pub struct Handover {
    /// The state.
    pub snapshot: Snapshot,
    /// The epoch in which it was.
    pub epoch: u64,
    /// Wall clock then, rounded up: nothing is refilled twice.
    pub unix_ms: u64,
}

/// Levels to be written, the newest only.
#[derive(Clone, Debug, Default)]
pub struct Pulse {
    /// The levels.
    pub levels: Vec<LevelMark>,
    /// The epoch.
    pub epoch: u64,
    /// Wall clock then, rounded up.
    pub unix_ms: u64,
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
    /// Where it subscribes.
    pub subjects: Subjects,
    /// The clock that the core was restored with.
    pub clock: Clock,
    /// The name of this scheduler process.
    pub leader: String,
    /// What others want.
    pub orders: mpsc::Receiver<Order>,
    /// Where levels go.
    pub pulse: watch::Sender<Pulse>,
}

/// The loop.
pub struct PermitLoop {
    client: Client,
    subscription: Subscriber,
    core: Scheduler<ReplyTo>,
    clock: Clock,
    leader: String,
    orders: mpsc::Receiver<Order>,
    pulse: watch::Sender<Pulse>,
    permit: String,
    settle: String,
    status: String,
    explain: String,
    outbox: Outbox,
    tally: Tally,
    /// When changed levels go to the store.
    next_save: Option<Time>,
}

/// What woke the loop.
enum Woken {
    Order(Option<Order>),
    Message(Option<Message>),
    Time,
}

impl PermitLoop {
    /// Subscribes to everything that concerns the resource.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn subscribe(client: Client, parts: Parts) -> Result<Self, async_nats::SubscribeError> {
        let Parts { core, subjects, clock, leader, orders, pulse } = parts;
        let name = core.resource().name().clone();
        let everything = format!("{}.*.{name}", subjects.prefix());
        Ok(PermitLoop {
            subscription: client.subscribe(everything).await?,
            client,
            tally: Tally::new(core.resource().classes().len()),
            core,
            clock,
            leader,
            orders,
            pulse,
            permit: subjects.permit(&name),
            settle: subjects.settle(&name),
            status: subjects.status(&name),
            explain: subjects.explain(&name),
            outbox: Outbox::default(),
            next_save: None,
        })
    }

    /// Answers until the orders end or the connection is closed for good.
    pub async fn run(mut self) {
        loop {
            match self.woken().await {
                Woken::Order(Some(order)) => self.obey(order),
                Woken::Message(Some(message)) => self.take_burst(message),
                Woken::Time => {}
                Woken::Order(None) | Woken::Message(None) => break,
            }
            self.keep_time();
            self.publish().await;
        }
        match tokio::time::timeout(FAREWELL, self.say_farewell()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the last answers may be lost"),
            Err(elapsed) => tracing::debug!(%elapsed, "the last answers may be lost"),
        }
    }

    /// Whoever has asked until now is told to ask elsewhere.
    async fn say_farewell(&mut self) -> anyhow::Result<()> {
        self.handle(self.clock.now(), Event::HandOver);
        self.subscription.drain().await?;
        while let Some(message) = self.subscription.next().await {
            self.take(self.clock.now(), message);
            self.publish().await;
        }
        self.publish().await;
        round_trip(&self.client).await
    }

    async fn woken(&mut self) -> Woken {
        let wakeup = match self.is_connected() {
            true => self.core.next_wakeup().map(|wakeup| wakeup.at),
            false => Some(self.clock.now() + RECONNECT_POLL),
        };
        let next = [wakeup, self.next_save].into_iter().flatten().min().unwrap_or(Time::NEVER);
        let at = tokio::time::Instant::from_std(self.clock.instant(next));
        tokio::select! {
            biased;
            order = self.orders.recv() => Woken::Order(order),
            message = self.subscription.next() => Woken::Message(message),
            () = tokio::time::sleep_until(at) => Woken::Time,
        }
    }

    fn take_burst(&mut self, first: Message) {
        let mut now = self.take(self.clock.now(), first);
        for _ in 1..BURST {
            let Some(Some(message)) = self.subscription.next().now_or_never() else { return };
            now = self.take(now, message);
        }
    }

    /// Takes a message at `now`, and returns when that was done.
    fn take(&mut self, now: Time, message: Message) -> Time {
        let subject = message.subject.as_str();
        if subject == self.permit {
            self.take_permits(now, message);
        } else if subject == self.settle {
            self.take_settles(now, message);
        } else if subject == self.status {
            self.tell_status(now, message.reply);
        } else if subject == self.explain {
            self.explain(now, message);
        } else if let Some(reply) = message.reply {
            self.refuse_invalid(ReplyTo::Alone(reply), None, format!("`{subject}` is not a subject of the protocol"));
        }
        let done = self.clock.now();
        self.tally.decisions.observe(done.since(now));
        done
    }

    /// Who does not want an answer does not want a permit.
    fn take_permits(&mut self, now: Time, message: Message) {
        let Some(reply) = message.reply else { return };
        match Incoming::<PermitRequest>::parse(&message.payload) {
            Incoming::One(request) => self.take_permit(now, ReplyTo::Alone(reply), request),
            Incoming::Many(requests) => {
                let none = requests.is_empty();
                for request in requests {
                    let to = reply_to(&reply, &request);
                    self.take_permit(now, to, request);
                }
                self.outbox.close_array(reply, none);
            }
        }
    }

    fn take_permit(&mut self, now: Time, to: ReplyTo, request: Result<PermitRequest<'_>, Invalid>) {
        let request = match request {
            Ok(request) => request,
            Err(invalid) => return self.refuse_invalid(to, invalid.id.as_ref(), invalid.to_string()),
        };
        if let Some(late_by) = forgotten_for(&request) {
            let message = format!("`sent_unix_ms`: sent so long ago that its `max_wait_ms` passed {late_by} ms ago");
            return self.refuse(to, request.id.as_ref(), Code::NotInTime, message);
        }
        self.note_epoch(request.epoch);
        match wire::ask(self.core.resource(), to, &request) {
            Ok(ask) => self.handle(now, Event::Ask(ask)),
            Err((to, refusal)) => {
                self.answer(Command::Refuse { to, id: request.id, refusal });
            }
        }
    }

    fn take_settles(&mut self, now: Time, message: Message) {
        let reply = message.reply;
        match Incoming::<Settle>::parse(&message.payload) {
            Incoming::One(settle) => self.take_settle(now, reply.map(ReplyTo::Alone), settle),
            Incoming::Many(settles) => {
                let none = settles.is_empty();
                for settle in settles {
                    self.take_settle(now, reply.as_ref().map(|_| ReplyTo::InArray), settle);
                }
                if let Some(reply) = reply {
                    self.outbox.close_array(reply, none);
                }
            }
        }
    }

    fn take_settle(&mut self, now: Time, to: Option<ReplyTo>, settle: Result<Settle<'_>, Invalid>) {
        match settle {
            Ok(settle) => {
                self.note_response(&settle);
                self.handle(now, Event::Settle(wire::settle(to, &settle)));
            }
            Err(invalid) => {
                tracing::warn!(reason = %invalid, "a settle is not of the protocol");
                if let Some(to) = to {
                    self.refuse_invalid(to, invalid.id.as_ref(), invalid.to_string());
                }
            }
        }
    }

    fn note_response(&mut self, settle: &Settle<'_>) {
        let Some(response) = &settle.response else { return };
        if response.status == TOO_MANY_REQUESTS {
            self.core.count_upstream_429();
            let retry_after = response.headers.get("retry-after");
            tracing::warn!(id = %settle.id, retry_after, "the upstream answered 429");
        }
    }

    /// A worker that has seen a higher epoch than ours shows that our store went back. Epochs count changes of leader,
    /// from the wall clock on where the count was lost: one beyond it nobody has seen.
    fn note_epoch(&mut self, seen: Option<u64>) {
        if let Some(seen) = seen.filter(|seen| *seen > self.core.epoch() && *seen <= unix_ms()) {
            tracing::warn!(epoch = self.core.epoch(), seen, "a worker has seen a higher epoch; the store went back");
            self.core.raise_epoch(seen + 1);
        }
    }

    fn tell_status(&mut self, now: Time, reply: Option<Subject>) {
        if let Some(reply) = reply {
            let status = self.status(now);
            self.outbox.send(reply, &status);
        }
    }

    fn explain(&mut self, now: Time, message: Message) {
        let Some(reply) = message.reply else { return };
        let question = match Question::parse(&message.payload) {
            Ok(question) => question,
            Err(invalid) => {
                return self.refuse_invalid(ReplyTo::Alone(reply), invalid.id.as_ref(), invalid.to_string());
            }
        };
        match self.core.explain(now, question.id.as_ref()) {
            Ok(explanation) => self.outbox.send(reply, &explanation),
            Err(refusal) => {
                self.answer(Command::Refuse { to: ReplyTo::Alone(reply), id: question.id, refusal });
            }
        }
    }

    fn status(&mut self, now: Time) -> Status {
        let limited_by = self.core.limited_by(now);
        Status {
            limits: self.core.limit_status(now),
            classes: self.core.class_status(now),
            resource: self.core.resource().name().clone(),
            epoch: self.core.epoch(),
            leader: self.leader.clone(),
            // The core does not see what is refused before it.
            counters: Counters { refused: self.tally.refusals.total(), ..self.core.counters() },
            limited_by: limited_by.map(|limit| self.core.resource().limits()[limit.index()].name().clone()),
        }
    }

    fn refuse_invalid(&mut self, to: ReplyTo, id: Option<&PermitId>, message: String) {
        self.refuse(to, id, Code::InvalidRequest, message);
    }

    fn refuse(&mut self, to: ReplyTo, id: Option<&PermitId>, code: Code, message: String) {
        self.tally.refusals.count(code);
        self.outbox.answer(to, &refusal(id.map(PermitId::as_str), code, message, self.core.epoch()));
    }

    fn handle(&mut self, now: Time, event: Event<ReplyTo>) {
        self.core.handle(now, event);
        while let Some(command) = self.core.poll_command() {
            self.answer(command);
        }
        self.next_save.get_or_insert(now + SAVE_EVERY);
    }

    fn answer(&mut self, command: Command<ReplyTo>) {
        self.count(&command);
        let Self { outbox, core, .. } = self;
        wire::answer(core.resource(), core.epoch(), command, |to, answer| outbox.answer(to, answer));
    }

    fn count(&mut self, command: &Command<ReplyTo>) {
        match command {
            Command::Grant(grant) if !grant.repeated => {
                self.tally.waits[grant.class.index()].observe(grant.waited + grant.delay);
            }
            Command::Refuse { refusal, .. } => self.tally.refusals.count(refusal.code()),
            Command::Grant(_) | Command::Queued { .. } | Command::Settled { .. } => {}
        }
    }

    /// Does what is due, whether or not a timer said so. A start that nobody can be told of in time is not committed:
    /// the answer would be sent after the reconnect, and all calls of the pause would come at once.
    fn keep_time(&mut self) {
        let now = self.clock.now();
        if self.is_connected() && self.core.next_wakeup().is_some_and(|wakeup| wakeup.at <= now) {
            self.handle(now, Event::Wake);
        }
        if self.next_save.is_some_and(|save| save <= now) {
            self.next_save = None;
            let levels = self.core.levels(now);
            self.pulse.send_replace(Pulse { levels, epoch: self.core.epoch(), unix_ms: unix_ms() + 1 });
        }
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    fn obey(&mut self, order: Order) {
        let now = self.clock.now();
        match order {
            Order::HandOver(to) => {
                self.handle(now, Event::HandOver);
                let snapshot = self.core.snapshot(now);
                let handover = Handover { snapshot, epoch: self.core.epoch(), unix_ms: unix_ms() + 1 };
                to.send(handover).ok();
            }
            Order::Report(to) => {
                let (tally, remembered) = (self.tally.clone(), self.core.remembered());
                to.send(Report { status: self.status(now), tally, remembered }).ok();
            }
        }
    }

    async fn publish(&mut self) {
        for outgoing in self.outbox.drain() {
            let sent = match outgoing.headers {
                None => self.client.publish(outgoing.subject, outgoing.payload).await,
                Some(headers) => self.client.publish_with_headers(outgoing.subject, headers, outgoing.payload).await,
            };
            if let Err(error) = sent {
                tracing::warn!(%error, "an answer could not be sent");
            }
        }
    }
}

/// In an array those who wait are answered one by one, the others together.
fn reply_to(reply: &Subject, request: &Result<PermitRequest<'_>, Invalid>) -> ReplyTo {
    match request {
        Ok(PermitRequest { mode: Mode::Wait, .. }) => ReplyTo::Alone(reply.clone()),
        Ok(PermitRequest { mode: Mode::Allow | Mode::Reserve, .. }) | Err(_) => ReplyTo::InArray,
    }
}

/// For how long, in milliseconds, the sender of a request has not been waiting any more, if that
/// is certain in spite of clocks that differ: it was held back while disconnected.
fn forgotten_for(request: &PermitRequest<'_>) -> Option<u64> {
    let (sent, most) = (request.sent_unix_ms?, request.max_wait_ms?);
    let given_up = sent as f64 + most.span().millis() + CLOCK_TOLERANCE.millis();
    let late = unix_ms() as f64 - given_up;
    (late > 0.0).then_some(late as u64)
}
