//! The task of a client, which owns the session and the connection.

use crate::connection::link::Message;
use crate::connection::stats::{Counters, count};
use crate::connection::transport::{Arrival, Transport};
use crate::policy::Policies;
use rampmeter_protocol::clock::{Clock, unix_ms};
use rampmeter_protocol::time::Time;
use rampmeter_worker_session::{AskNumber, Command, Denial, Event, Freezes, Grant, Session};
use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Sleep;

/// Events handled before the driver acts on them: enough to fill arrays without much delay.
const MAX_AT_ONCE: usize = 256;

pub(crate) struct Driver {
    clock: Clock,
    session: Session,
    transport: Transport,
    policies: Policies,
    counters: Arc<Counters>,
    waiting: BTreeMap<AskNumber, oneshot::Sender<Result<Grant, Denial>>>,
    freezes: Vec<watch::Sender<Freezes>>,
    closing: Vec<oneshot::Sender<()>>,
}

impl Driver {
    /// `counters` counts the events that the session reports to nobody else.
    pub(crate) fn new(
        clock: Clock,
        session: Session,
        transport: Transport,
        policies: Policies,
        counters: Arc<Counters>,
    ) -> Self {
        let (waiting, freezes, closing) = (BTreeMap::new(), Vec::new(), Vec::new());
        Driver { clock, session, transport, policies, counters, waiting, freezes, closing }
    }

    /// Runs until the last handle of the client is dropped.
    pub(crate) async fn run(mut self, mut messages: mpsc::UnboundedReceiver<Message>) {
        let mut alarm = Timer::new(self.clock);
        let mut sleep = pin!(tokio::time::sleep(std::time::Duration::ZERO));
        loop {
            // 1. Do what follows from past events.
            self.carry_out().await;
            alarm.set(self.session.next_wakeup(), sleep.as_mut());
            // 2. Wait for one event.
            tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => self.handle(message).await,
                    None => break,
                },
                arrival = self.transport.next() => self.receive(&arrival),
                () = sleep.as_mut(), if alarm.is_set() => alarm.clear(),
            }
            // 3. Take all other events that are there: their messages travel together.
            self.catch_up(&mut messages).await;
        }
        self.close(None);
        self.carry_out().await;
    }

    async fn catch_up(&mut self, messages: &mut mpsc::UnboundedReceiver<Message>) {
        for _ in 0..MAX_AT_ONCE {
            let Some(arrival) = self.transport.try_next() else { break };
            self.receive(&arrival);
        }
        for _ in 0..MAX_AT_ONCE {
            let Ok(message) = messages.try_recv() else { break };
            self.handle(message).await;
        }
    }

    async fn handle(&mut self, message: Message) {
        match message {
            Message::Ask { ask, resource, request, deadline, answer } => {
                self.waiting.insert(ask, answer);
                self.session.handle(self.clock.now(), Event::Asked { ask, resource, request, deadline });
            }
            Message::Cancel { ask, resource } => {
                self.waiting.remove(&ask);
                self.session.handle(self.clock.now(), Event::Cancelled { ask, resource });
            }
            Message::Event(event) => self.session.handle(self.clock.now(), event),
            Message::Token { resource, answer } => self.transport.ask_token(resource, answer),
            Message::Open { name, freezes } => {
                let resource = self.transport.open(&name).await;
                self.session.set_unreachable(resource, self.policies.of(&name));
                self.freezes.push(freezes);
            }
            Message::Close { done } => self.close(done),
        }
    }

    /// Delays count from the receipt, so the clock is read for each message.
    fn receive(&mut self, arrival: &Arrival) {
        let now = self.clock.now();
        match arrival {
            Arrival::Answer { batch, payload } => self.session.handle(now, Event::Answered { batch: *batch, payload }),
            Arrival::NoResponders { batch } => self.session.handle(now, Event::Undelivered { batch: *batch }),
            Arrival::News { resource, payload } => {
                let unix_ms = unix_ms();
                self.session.handle(now, Event::News { resource: *resource, payload, unix_ms });
            }
        }
    }

    fn close(&mut self, done: Option<oneshot::Sender<()>>) {
        self.session.handle(self.clock.now(), Event::Closed);
        self.closing.extend(done);
    }

    async fn carry_out(&mut self) {
        // NATS buffers messages while disconnected and would deliver them when they are useless.
        if !self.transport.is_connected() {
            self.session.handle(self.clock.now(), Event::Disconnected);
        }
        while let Some(command) = self.session.poll(self.clock.now()) {
            self.execute(command).await;
        }
        if !self.closing.is_empty() {
            self.transport.flush().await;
            for done in self.closing.drain(..) {
                done.send(()).ok();
            }
        }
    }

    async fn execute(&mut self, command: Command) {
        match command {
            Command::Ask { resource, class, batch, payload, traces } => {
                if !self.transport.ask(resource, class.as_deref(), batch, (payload, &traces)).await {
                    self.session.handle(self.clock.now(), Event::Undelivered { batch });
                }
            }
            Command::Settle { resource, batch, payload, traces } => {
                if !self.transport.settle(resource, batch, (payload, &traces)).await {
                    self.session.handle(self.clock.now(), Event::Undelivered { batch });
                }
            }
            Command::Renew { resource, batch, payload } => {
                if !self.transport.renew(resource, batch, payload).await {
                    self.session.handle(self.clock.now(), Event::Undelivered { batch });
                }
            }
            Command::Unrenewed { id, code, message, .. } => {
                count(&self.counters.unrenewed);
                let code = code.as_str();
                tracing::warn!(%id, code, %message, "the lease of a call in flight was not renewed; another call may be in its place");
            }
            Command::Silent { resource, silence } => self.transport.report_silence(resource, silence),
            Command::SilenceOver { resource } => {
                let resource = self.transport.name(resource);
                tracing::info!(%resource, "a scheduler of the resource answers again");
            }
            Command::Complete { ask, result } => {
                // A caller that stopped waiting has cancelled; the session gives the permit back.
                if let Some(waiting) = self.waiting.remove(&ask) {
                    drop(waiting.send(result));
                }
            }
            Command::Freeze { resource, freeze } => {
                self.freezes[resource.0 as usize].send_modify(|known| known.add(freeze));
            }
        }
    }
}

/// The timer of the driver. It is changed only when the time changes, which is rare.
struct Timer {
    clock: Clock,
    at: Option<Time>,
}

impl Timer {
    fn new(clock: Clock) -> Self {
        Timer { clock, at: None }
    }

    fn set(&mut self, at: Option<Time>, sleep: Pin<&mut Sleep>) {
        if self.at == at {
            return;
        }
        self.at = at;
        if let Some(at) = at {
            sleep.reset(self.clock.instant(at).into());
        }
    }

    fn is_set(&self) -> bool {
        self.at.is_some()
    }

    fn clear(&mut self) {
        self.at = None;
    }
}
