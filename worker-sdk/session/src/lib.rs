//! The decisions of a client: when to ask, to ask again, and to give up.
//!
//! A [`Session`] has no clock, no socket and no randomness of its own. Time is an argument, and randomness
//! comes from a seed, which is a secret. Its driver passes an [`Event`] and then takes every [`Command`]
//! until there is none. Then it waits for the next event or for [`Session::next_wakeup`]. The worker SDK
//! drives it over NATS, and the HTTP front on behalf of its clients. A simulator drives it in virtual time.
//!
//! ```
//! use rampmeter_protocol::{request::PermitRequest, time::Time};
//! use rampmeter_worker_session::{AskNumber, Command, Event, ResourceNumber, Session};
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
mod asks;
mod bucket;
mod command;
mod event;
mod fallback;
mod freeze;
mod leases;
mod outbox;
mod relaying;
mod renewing;
mod rng;
mod sending;
mod silence;
mod without_scheduler;

pub use command::{Command, Denial, Grant};
pub use event::Event;
pub use event::{AskNumber, BatchNumber, ResourceNumber};
pub use fallback::patience::{Patience, PatienceError};
pub use fallback::safe_rate::{SafeRate, SafeRateError};
pub use fallback::unreachable::Unreachable;
pub use freeze::{Freeze, Freezes};

/// Runs the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use asks::Asks;
use asks::ask::{Ask, Due};
use asks::cancelled::Cancelled;
use asks::ids::{Ids, SecretKey};
use asks::longest_silence::LongestSilence;
use leases::Leases;
use outbox::Outbox;
use outbox::retries::Retries;
use rampmeter_protocol::epoch::{Epoch, highest_of_an_event};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::news::News;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::Time;
use rng::Rng;
use std::collections::VecDeque;

/// Default bound on pending asks of some 500 bytes: more than a process has tasks, too few to fill the memory.
pub const MAX_ASKS: usize = 1 << 18;

/// The pending asks, the calls in flight and the unsent settles of one client, over all resources.
#[derive(Debug)]
pub struct Session {
    ids: Ids,
    dice: Rng,
    longest_silence: LongestSilence,
    connected: bool,
    disconnected_at: Option<Time>,
    closed: bool,
    outboxes: Vec<Outbox>,
    asks: Asks,
    retries: Retries,
    cancelled: Cancelled,
    leases: Leases,
    /// The options, chosen before the first event.
    pub options: SessionOptions,
    /// Whether it asks on behalf of clients with sessions of their own.
    relays: bool,
    results: VecDeque<Command>,
    batches: u64,
    settle_batches: u64,
}

/// Options of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Whether the session renews leases instead of the caller (by settles that say `extend`).
    pub renews: bool,
    /// Whether the session emits [`Command::Silent`] and [`Command::SilenceOver`] for people.
    pub reports_silence: bool,
    /// Whether a message has requests of one class only, as a class in the subject requires.
    pub one_class_per_message: bool,
    /// The number of pending asks beyond which further ones are refused.
    pub most_asks: usize,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions { renews: true, reports_silence: false, one_class_per_message: false, most_asks: MAX_ASKS }
    }
}

impl Session {
    /// Creates a session that is not connected yet. The ids of its permits come from the seed and
    /// are bearer secrets, so a worker's seed has to be 128 bits that no other process can guess.
    #[must_use]
    pub fn new(seed: u128) -> Self {
        let key = SecretKey::new(seed);
        let mut dice = Rng::new(key.seed());
        Session {
            ids: Ids::new(key),
            longest_silence: LongestSilence::new(&mut dice),
            dice,
            connected: false,
            disconnected_at: None,
            closed: false,
            outboxes: Vec::new(),
            asks: Asks::default(),
            retries: Retries::default(),
            cancelled: Cancelled::default(),
            leases: Leases::default(),
            options: SessionOptions::default(),
            relays: false,
            results: VecDeque::new(),
            batches: 0,
            settle_batches: 0,
        }
    }

    /// Handles one event. Afterwards call [`Session::poll`] until it returns `None`.
    pub fn handle(&mut self, now: Time, event: Event<'_>) {
        match event {
            Event::Connected => self.connected(now),
            Event::Disconnected => self.disconnected(now),
            Event::Asked { ask, resource, request, deadline } => {
                let request = Ask::new(now, resource, request, deadline, self.longest_silence);
                self.asked(now, ask, request);
            }
            Event::Cancelled { ask, resource } => self.cancelled(now, ask, resource),
            Event::Settled { resource, settle } => self.settled(now, resource, *settle),
            Event::Answered { batch, payload } => self.answered(now, batch, payload),
            Event::Undelivered { batch } => self.undelivered(now, batch),
            Event::News { resource, payload, unix_ms } => self.news(now, resource, payload, unix_ms),
            Event::Closed => self.close(now),
        }
    }

    /// Returns the next command, or `None` until the next event or wake-up.
    pub fn poll(&mut self, now: Time) -> Option<Command> {
        self.wake(now);
        self.results.pop_front().or_else(|| self.send(now)).or_else(|| self.serve_locally(now))
    }

    /// Returns when to poll again without an event: at a deadline, after too long a silence, at the end of a back-off,
    /// or for a local permit; early at times, never late. It gives no reason: [`poll`](Self::poll) checks all that is
    /// due, by the due time of each part, so that no reason can become stale.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        let budget = self.retries.opens();
        let sends = self.outboxes.iter().filter_map(|outbox| outbox.opens(budget)).filter(|_| self.connected);
        let watches = self.outboxes.iter().map(|outbox| outbox.schedulers.reachability.next_wakeup());
        let renewals = self.leases.next_due().filter(|_| self.connected);
        let looks = self.outboxes.iter().map(|outbox| outbox.schedulers.silence_report.next_look());
        sends
            .chain(watches)
            .chain(looks)
            .chain(renewals)
            .chain(self.asks.next_due())
            .min()
            .filter(|next| *next < Time::NEVER)
    }

    /// Returns the id of `ask`'s permit on the wire.
    #[must_use]
    pub fn id(&self, ask: AskNumber) -> PermitId {
        self.ids.id(ask)
    }

    fn outbox(&mut self, resource: ResourceNumber) -> &mut Outbox {
        let index = resource.0 as usize;
        if index >= self.outboxes.len() {
            self.outboxes.resize_with(index + 1, Outbox::default);
        }
        &mut self.outboxes[index]
    }

    fn asked(&mut self, now: Time, number: AskNumber, mut ask: Ask) {
        if self.closed {
            return self.results.push_back(Command::Complete { ask: number, result: Err(Denial::Closed) });
        }
        let SessionOptions { most_asks, reports_silence, .. } = self.options;
        if self.asks.len() >= most_asks {
            return self.complete(number, Err(Denial::TooManyAsks { bound: most_asks }));
        }
        ask.keeps_id = self.relays && ask.request.id.is_some();
        if !ask.keeps_id {
            ask.request.id = Some(self.ids.id(number));
        }
        let resource = ask.resource;
        self.asks.insert(number, ask);
        let group = self.message_group(number);
        let outbox = self.outbox(resource);
        outbox.enter(number, false, group);
        outbox.schedulers.reachability.expect(now);
        if reports_silence {
            outbox.schedulers.silence_report.expect(now);
        }
    }

    /// An unknown ask was granted meanwhile.
    fn cancelled(&mut self, now: Time, number: AskNumber, resource: ResourceNumber) {
        match self.asks.remove(number) {
            Some(ask) => self.withdraw(now, number, &ask),
            None => self.give_back(now, number, resource, self.ids.id(number)),
        }
    }

    fn give_back(&mut self, now: Time, number: AskNumber, resource: ResourceNumber, id: PermitId) {
        self.cancelled.insert(now, number, resource);
        self.settled(now, resource, Settle::unused(id));
    }

    fn next_batch(&mut self) -> BatchNumber {
        let batch = BatchNumber(self.batches);
        self.batches += 1;
        batch
    }

    fn remove(&mut self, number: AskNumber) -> Option<Ask> {
        let ask = self.asks.remove(number)?;
        self.outbox(ask.resource).leave(number);
        Some(ask)
    }

    fn complete(&mut self, number: AskNumber, result: Result<Grant, Denial>) {
        self.results.push_back(Command::Complete { ask: number, result });
    }

    /// Handles an event that is readable and not from a deposed or an impossible leader.
    fn news(&mut self, now: Time, resource: ResourceNumber, payload: &[u8], unix_ms: u64) {
        let Ok(news) = serde_json::from_slice::<News>(payload) else { return };
        let known = &self.outbox(resource).schedulers.epoch;
        let named = news.epoch().filter(|epoch| *epoch != Epoch::NONE);
        if named.is_some_and(|epoch| epoch > highest_of_an_event(unix_ms) || known.is_past(now, epoch)) {
            return;
        }
        match news {
            News::Leader { epoch, .. } => return self.begin_term(now, resource, epoch),
            News::Freeze { for_ms, buckets, .. } => self.frozen(now, resource, for_ms, buckets),
            News::Limits { .. } | News::Thaw { .. } | News::Other => {}
        }
        self.note_contact(now, resource, false);
    }

    /// Handles a term's beginning. A scheduler with an empty store first announces no epoch, to learn it from requests.
    fn begin_term(&mut self, now: Time, resource: ResourceNumber, epoch: Epoch) {
        if epoch != Epoch::NONE {
            self.outbox(resource).schedulers.epoch.announce(now, epoch);
        }
        self.note_contact(now, resource, true);
    }

    /// Notes an answer or event of a scheduler. If that is new or was unreachable, the session sends everything again.
    fn note_contact(&mut self, now: Time, resource: ResourceNumber, is_new: bool) {
        if is_new || self.outbox(resource).schedulers.reachability.is_lost() {
            let silence = self.silence(now, resource);
            self.ask_all_again(now, resource, silence);
        }
        let outbox = self.outbox(resource);
        outbox.schedulers.reachability.note_contact(now);
        if outbox.schedulers.silence_report.ends() {
            self.results.push_back(Command::SilenceOver { resource });
        }
    }

    fn frozen(&mut self, now: Time, resource: ResourceNumber, for_ms: f64, buckets: Vec<(Name, Option<String>)>) {
        if let Ok(span) = Millis::new(for_ms) {
            let freeze = Freeze { seen: now, until: now + span.span(), buckets };
            let outbox = self.outbox(resource);
            outbox.schedulers.frozen_until = outbox.schedulers.frozen_until.max(freeze.until);
            self.results.push_back(Command::Freeze { resource, freeze });
        }
    }

    fn close(&mut self, now: Time) {
        self.closed = true;
        for (number, ask) in self.asks.take_all() {
            self.end(now, number, &ask, Err(Denial::Closed));
        }
        self.leases.end_all();
        self.outboxes.iter_mut().for_each(Outbox::open);
    }

    /// Completes an ask whose permit may still be on its way.
    fn end(&mut self, now: Time, number: AskNumber, ask: &Ask, result: Result<Grant, Denial>) {
        self.withdraw(now, number, ask);
        self.complete(number, result);
    }

    /// Gives back what an ask may have been granted, unless it was never sent.
    fn withdraw(&mut self, now: Time, number: AskNumber, ask: &Ask) {
        self.outbox(ask.resource).leave(number);
        if ask.was_sent() {
            self.give_back(now, number, ask.resource, ask.id());
        }
    }

    fn wake(&mut self, now: Time) {
        for (number, due) in self.asks.take_due(now) {
            match due {
                Due::Deadline => self.time_out(now, number),
                Due::AskAgain => self.ask_again(now, number),
            }
        }
        self.check_reachability(now);
        self.report_silence(now);
    }

    fn time_out(&mut self, now: Time, number: AskNumber) {
        let Some(mut ask) = self.asks.remove(number) else { return };
        let waited = now.since(ask.since);
        let why = Denial::TimedOut { waited, limited_by: ask.limited_by.take(), answered: ask.was_answered };
        self.end(now, number, &ask, Err(why));
    }
}
