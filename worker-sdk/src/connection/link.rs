//! The callers' side of the driver.

use crate::Error;
use crate::connection::stats::Counters;
use rampmeter_protocol::bounds::MAX_MILLIS;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::token::AccessToken;
use rampmeter_worker_session::{AskNumber, Denial, Event, Freezes, Grant, ResourceNumber};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

#[derive(Debug)]
pub(crate) enum Message {
    /// Opens a resource on first use. The order of these messages numbers the resources.
    Open { name: Name, freezes: watch::Sender<Freezes> },
    /// A request for a permit.
    Ask {
        ask: AskNumber,
        resource: ResourceNumber,
        request: Box<PermitRequest<'static>>,
        deadline: Time,
        answer: oneshot::Sender<Result<Grant, Denial>>,
    },
    /// The caller of this request no longer waits.
    Cancel { ask: AskNumber, resource: ResourceNumber },
    /// Another event for the session.
    Event(Event<'static>),
    /// A request for a resource's access token.
    Token { resource: Name, answer: oneshot::Sender<Result<AccessToken, Error>> },
    /// Ends the session. The driver signals `done` when all messages have been sent.
    Close { done: Option<oneshot::Sender<()>> },
}

/// The state that all handles of a client share. The driver ends when the last one is dropped.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    messages: mpsc::UnboundedSender<Message>,
    asks: AtomicU64,
    /// The lock guards the resources' numbers while one is opened.
    resources: Mutex<BTreeMap<Name, Opened>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) number: ResourceNumber,
    pub(crate) freezes: watch::Receiver<Freezes>,
}

impl Link {
    pub(crate) fn new(clock: Clock, messages: mpsc::UnboundedSender<Message>, counters: Arc<Counters>) -> Self {
        Link { clock, counters, messages, asks: AtomicU64::new(0), resources: Mutex::new(BTreeMap::new()) }
    }

    /// Returns the resource, opened by the driver before any request for it.
    pub(crate) fn open(&self, name: &Name) -> Opened {
        let mut resources = self.resources.lock().expect("opening a resource does not panic");
        let number = ResourceNumber(u32::try_from(resources.len()).expect("fewer resources than a u32 counts"));
        let opened = resources.entry(name.clone()).or_insert_with(|| {
            let (sender, freezes) = watch::channel(Freezes::default());
            self.send(Message::Open { name: name.clone(), freezes: sender });
            Opened { number, freezes }
        });
        opened.clone()
    }

    /// Drops the message if the driver has ended; the caller sees that by its answer channel.
    pub(crate) fn send(&self, message: Message) {
        self.messages.send(message).ok();
    }

    pub(crate) fn next_ask(&self) -> AskNumber {
        AskNumber(self.asks.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns when a wait of `longest` from now ends; never, if that is too long for the wire.
    pub(crate) fn deadline(&self, longest: Option<Duration>) -> Time {
        let bounded = longest.map(Span::from).filter(|longest| longest.millis() <= MAX_MILLIS);
        bounded.map_or(Time::NEVER, |longest| self.clock.now() + longest)
    }
}
