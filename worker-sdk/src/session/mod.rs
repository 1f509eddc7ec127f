//! What a worker's end of the protocol decides: when to ask, when to ask again, when to give up.
//!
//! A [`Session`] has no clock, no socket and no randomness of its own: time is an argument, chance
//! comes from a seed. Its driver tells it what happened ([`Event`]), then takes every [`Command`]
//! until there is none, then waits for the next event or for [`Session::next_wakeup`]. The client
//! of this crate drives it over NATS; a simulator drives it in virtual time.
//!
//! ```
//! use rampmeter_protocol::{request::PermitRequest, time::Time};
//! use rampmeter_worker_sdk::session::{AskNumber, Command, Event, ResourceNumber, Session};
//!
//! let mut session = Session::new(7);
//! session.handle(Time::ORIGIN, Event::Connected);
//! let (ask, resource) = (AskNumber(1), ResourceNumber(0));
//! let request = Box::new(PermitRequest::default());
//! session.handle(Time::ORIGIN, Event::Asked { ask, resource, request, deadline: Time::NEVER });
//! let Some(Command::Ask { batch, payload, .. }) = session.poll(Time::ORIGIN) else { panic!() };
//!
//! let id = session.id(ask);
//! assert_eq!(String::from_utf8_lossy(&payload), format!(r#"{{"id":"{id}","mode":"reserve"}}"#));
//! let answer = format!(r#"{{"status":"granted","id":"{id}","delay_ms":5,"epoch":1}}"#);
//! session.handle(Time::ORIGIN, Event::Answered { batch, payload: answer.as_bytes() });
//! assert!(matches!(session.poll(Time::ORIGIN), Some(Command::Complete { result: Ok(_), .. })));
//! ```

mod answered;
mod ask;
mod asks;
mod backoff;
mod cancelled;
mod dice;
mod freeze;
mod ids;
mod lane;
mod payload;
mod vocabulary;

pub use freeze::Freeze;
pub use vocabulary::{AskNumber, BatchNumber, Command, Denial, Event, Grant, ResourceNumber};

use ask::{Ask, Due};
use asks::Asks;
use cancelled::Cancelled;
use dice::Dice;
use ids::Ids;
use lane::Lane;
use payload::ArrayPayload;
use rampmeter_protocol::event::Event as News;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::{Span, Time};
use std::collections::VecDeque;

/// All workers of a fleet learn of a new leader in the same millisecond; they ask within this time.
const REASK_JITTER: Span = Span::from_millis(20);

/// The pending asks and unsent settles of one client, over all its resources.
#[derive(Debug)]
pub struct Session {
    ids: Ids,
    dice: Dice,
    connected: bool,
    closed: bool,
    lanes: Vec<Lane>,
    asks: Asks,
    cancelled: Cancelled,
    results: VecDeque<Command>,
    batches: u64,
}

impl Session {
    /// A session that is not connected yet. Sessions of different workers need different seeds:
    /// the names of their permits come from it.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        Session {
            ids: Ids::new(&mut dice),
            dice,
            connected: false,
            closed: false,
            lanes: Vec::new(),
            asks: Asks::default(),
            cancelled: Cancelled::default(),
            results: VecDeque::new(),
            batches: 0,
        }
    }

    /// Takes in one thing that happened. [`Session::poll`] until it has no more to say, afterwards.
    pub fn handle(&mut self, now: Time, event: Event<'_>) {
        match event {
            Event::Connected => self.connected(now),
            Event::Disconnected => self.connected = false,
            Event::Asked { ask, resource, request, deadline } => {
                self.asked(ask, Ask::new(now, resource, request, deadline));
            }
            Event::Cancelled { ask, resource } => self.cancelled(now, ask, resource),
            Event::Settled { resource, settle } => self.lane(resource).settle(settle),
            Event::Answered { batch, payload } => self.answered(now, batch, payload),
            Event::Undelivered { batch } => self.undelivered(now, batch),
            Event::News { resource, payload } => self.news(now, resource, payload),
            Event::Closed => self.close(now),
        }
    }

    /// The next thing to do, or `None` when all is done until the next event or wake-up.
    pub fn poll(&mut self, now: Time) -> Option<Command> {
        self.wake(now);
        self.results.pop_front().or_else(|| self.send(now))
    }

    /// When to poll again if nothing happens: a deadline, a silence that has lasted too long, or the
    /// end of a back-off. May be early, is never late.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        let sends = self.lanes.iter().filter_map(Lane::opens).filter(|_| self.connected);
        sends.chain(self.asks.next_due()).min().filter(|next| *next < Time::NEVER)
    }

    /// The name of `ask`'s permit on the wire.
    pub fn id(&mut self, ask: AskNumber) -> PermitId {
        self.ids.id(ask)
    }

    fn lane(&mut self, resource: ResourceNumber) -> &mut Lane {
        let index = resource.0 as usize;
        if index >= self.lanes.len() {
            self.lanes.resize_with(index + 1, Lane::default);
        }
        &mut self.lanes[index]
    }

    fn connected(&mut self, now: Time) {
        self.connected = true;
        for index in 0..self.lanes.len() {
            self.ask_all_again(now, ResourceNumber(index as u32));
        }
    }

    fn asked(&mut self, number: AskNumber, mut ask: Ask) {
        if self.closed {
            return self.results.push_back(Command::Complete { ask: number, result: Err(Denial::Closed) });
        }
        ask.request.id = Some(self.ids.id(number));
        self.lane(ask.resource).unsent.insert(number);
        self.asks.insert(number, ask);
    }

    /// What was never sent needs no giving back; what is not known here was granted meanwhile.
    fn cancelled(&mut self, now: Time, number: AskNumber, resource: ResourceNumber) {
        let never_sent = self.remove(number).is_some_and(|ask| !ask.was_sent());
        if !never_sent {
            self.give_back(now, number, resource);
        }
    }

    fn give_back(&mut self, now: Time, number: AskNumber, resource: ResourceNumber) {
        self.cancelled.insert(now, number, resource);
        let settle = Settle::unused(self.ids.id(number));
        self.lane(resource).settle(settle);
    }

    fn remove(&mut self, number: AskNumber) -> Option<Ask> {
        let ask = self.asks.remove(number)?;
        self.lane(ask.resource).unsent.remove(&number);
        Some(ask)
    }

    fn complete(&mut self, number: AskNumber, result: Result<Grant, Denial>) {
        self.results.push_back(Command::Complete { ask: number, result });
    }

    fn undelivered(&mut self, now: Time, batch: BatchNumber) {
        for number in self.asks.of_batch(batch) {
            self.ask_later(now, number);
        }
    }

    /// Back into the line of what is to be sent, which opens after a back-off.
    fn ask_later(&mut self, now: Time, number: AskNumber) {
        let Some(ask) = self.asks.get_mut(number) else { return };
        ask.unsend();
        let lane = &mut self.lanes[ask.resource.0 as usize];
        lane.unsent.insert(number);
        lane.backoff.fail(now, &mut self.dice);
    }

    /// Whoever answers from now on may never have heard of what was sent before, and is there now: a
    /// back-off ends. What was never sent need not wait, as no other worker does so just now.
    fn ask_all_again(&mut self, now: Time, resource: ResourceNumber) {
        let again = self.asks.unsend_all_of(resource);
        let opens = now + self.dice.span_up_to(REASK_JITTER);
        let lane = self.lane(resource);
        if !again.is_empty() || lane.backoff.until() > now {
            lane.backoff.hold_until(opens);
        }
        lane.unsent.extend(again);
    }

    fn news(&mut self, now: Time, resource: ResourceNumber, payload: &[u8]) {
        match serde_json::from_slice(payload) {
            Ok(News::Leader { epoch, .. }) => self.new_leader(now, resource, epoch),
            Ok(News::Freeze { for_ms, .. }) => self.frozen(now, resource, for_ms),
            Ok(News::Limits { .. } | News::Thaw { .. } | News::Other) | Err(_) => {}
        }
    }

    fn new_leader(&mut self, now: Time, resource: ResourceNumber, epoch: u64) {
        let lane = self.lane(resource);
        if lane.epoch.is_none_or(|known| epoch > known) {
            lane.epoch = Some(epoch);
            self.ask_all_again(now, resource);
        }
    }

    fn frozen(&mut self, now: Time, resource: ResourceNumber, for_ms: f64) {
        if let Ok(span) = Millis::new(for_ms) {
            let freeze = Freeze { seen: now, until: now + span.span() };
            self.results.push_back(Command::Freeze { resource, freeze });
        }
    }

    fn close(&mut self, now: Time) {
        self.closed = true;
        for (number, ask) in self.asks.take_all() {
            self.end(now, number, &ask, Denial::Closed);
        }
        self.lanes.iter_mut().for_each(Lane::open);
    }

    /// Completes an ask whose permit may still be on its way.
    fn end(&mut self, now: Time, number: AskNumber, ask: &Ask, why: Denial) {
        self.lane(ask.resource).unsent.remove(&number);
        if ask.was_sent() {
            self.give_back(now, number, ask.resource);
        }
        self.complete(number, Err(why));
    }

    fn wake(&mut self, now: Time) {
        for (number, due) in self.asks.take_due(now) {
            match due {
                Due::Deadline => self.time_out(now, number),
                Due::AskAgain => self.ask_again(number),
            }
        }
    }

    fn time_out(&mut self, now: Time, number: AskNumber) {
        let Some(mut ask) = self.asks.remove(number) else { return };
        let waited = now.since(ask.asked);
        let why = Denial::TimedOut { waited, limited_by: ask.limited_by.take(), heard: ask.heard };
        self.end(now, number, &ask, why);
    }

    fn ask_again(&mut self, number: AskNumber) {
        let Some(ask) = self.asks.get_mut(number) else { return };
        ask.unsend();
        self.lanes[ask.resource.0 as usize].unsent.insert(number);
    }

    /// Settles first: what comes back may serve those who ask.
    fn send(&mut self, now: Time) -> Option<Command> {
        if !self.connected {
            return None;
        }
        let index = self.lanes.iter().position(|lane| lane.opens().is_some_and(|opens| opens <= now))?;
        let resource = ResourceNumber(index as u32);
        if let Some(payload) = self.lanes[index].take_settles() {
            return Some(Command::Settle { resource, payload });
        }
        Some(self.send_asks(now, resource))
    }

    fn send_asks(&mut self, now: Time, resource: ResourceNumber) -> Command {
        let batch = BatchNumber(self.batches);
        self.batches += 1;
        let lane = &mut self.lanes[resource.0 as usize];
        let mut array = ArrayPayload::default();
        while !array.is_full() {
            let Some(number) = lane.unsent.pop_first() else { break };
            array.push(self.asks.send(now, number, batch, lane.epoch));
        }
        Command::Ask { resource, batch, payload: array.finish() }
    }
}
