//! Guards the answers of a term: leadership, checkpoints and announcements.

use crate::messages::reply::ReplyTo;
use crate::permits::answers::core_driver::CoreDriver;
use crate::permits::answers::loop_request::{Handover, LoopState};
use crate::permits::watch::leadership_check::{Finding, LeadershipCheck};
use crate::permits::watch::loopback_check::LoopbackCheck;
use crate::permits::watch::named_epoch::NamedEpoch;
use crate::permits::watch::stall_detector::HEARTBEAT;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::news::News;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::checkpoint_number::CheckpointNumber;
use rampmeter_scheduler_core::event::Event;
use rampmeter_store::RulesRevision;
use tokio::sync::{mpsc, oneshot};

/// How often a lost connection is checked.
const RECONNECT_POLL: Span = Span::from_millis(5);

/// Decides whether answers may go out, and reports every doubt to the core before its next event. Hands out one
/// checkpoint at a time, and only while this loop receives its own messages: a deaf loop must not lead for ever.
#[derive(Debug)]
pub(crate) struct TermGuard {
    leadership: LeadershipCheck,
    loopback: LoopbackCheck,
    epochs: NamedEpoch,
    leader: String,
    /// Signals, once in a term, that permits are granted.
    opened: Option<oneshot::Sender<()>>,
    writer: mpsc::Sender<LoopState>,
    is_writing: bool,
    connects: u64,
}

impl TermGuard {
    pub(crate) fn new(
        leader: String,
        connects: u64,
        leadership: LeadershipCheck,
        loopback: LoopbackCheck,
        opened: oneshot::Sender<()>,
        writer: mpsc::Sender<LoopState>,
    ) -> Self {
        let (epochs, opened) = (NamedEpoch::default(), Some(opened));
        TermGuard { leadership, loopback, epochs, leader, opened, writer, is_writing: false, connects }
    }

    /// Begins the term. While this leader listens, it announces no epoch: workers waiting for a former leader
    /// then ask again, and one that knows any epoch has seen another leader.
    pub(crate) fn start(&mut self, driver: &mut CoreDriver) {
        match self.leadership.is_listening() {
            false => self.begin(driver),
            true => self.announce(driver, Epoch::NONE),
        }
    }

    pub(crate) fn reads(&self) -> bool {
        self.leadership.reads()
    }

    /// Returns whether answers may go out and can reach clients.
    pub(crate) fn may_answer(&self, driver: &CoreDriver) -> bool {
        driver.outbox.is_connected() && self.leadership.reads()
    }

    pub(crate) fn is_clearing(&self) -> bool {
        self.leadership.is_clearing()
    }

    /// Returns when the loop must run next, even if nothing arrives.
    pub(crate) fn next_look(&self, now: Time, driver: &CoreDriver) -> Time {
        let heartbeat = now + HEARTBEAT;
        match (driver.outbox.is_connected(), self.leadership.grants()) {
            (false, _) => now + RECONNECT_POLL,
            (true, false) => heartbeat,
            (true, true) => {
                let echo = self.loopback.next_look(driver.grants());
                let wakeup = driver.next_wakeup().map(|wakeup| wakeup.at);
                let due = self.next_checkpoint(now, driver).into_iter().chain(wakeup);
                due.chain([heartbeat, echo]).min().unwrap_or(heartbeat)
            }
        }
    }

    fn next_checkpoint(&self, now: Time, driver: &CoreDriver) -> Option<Time> {
        driver.core().next_checkpoint().filter(|_| !self.is_writing && self.loopback.is_alive(now))
    }

    /// Detects a standstill, a new connection, and the end of listening.
    pub(crate) fn check_leadership(&mut self, now: Time, driver: &mut CoreDriver) {
        // A successor may lead that found this scheduler gone, and hears settles that come in here.
        let connects = driver.outbox.connects();
        if std::mem::replace(&mut self.connects, connects) != connects {
            driver.handle(now, Event::Doubt);
        }
        match self.leadership.look(now) {
            Some(Finding::StoodStill(away)) => {
                let resource = driver.core().resource().name();
                tracing::warn!(%resource, standstill = %away, "this process stood still; checking which scheduler leads");
                driver.tally.standstills += 1;
                self.loopback.lose(now);
                driver.outbox.forget();
                driver.handle(now, Event::Doubt);
            }
            Some(Finding::Listened(checkpoint)) => {
                match self.epochs.rise_now() {
                    None => driver.handle(now, Event::CheckpointStored(checkpoint)),
                    Some(epoch) => begin_in_another_store(now, driver, epoch),
                }
                self.begin(driver);
            }
            None => {}
        }
    }

    /// Sends the echo if one is due and can arrive.
    pub(crate) fn send_due_echo(&mut self, now: Time, driver: &mut CoreDriver) {
        if !self.may_answer(driver) {
            // While nothing is read, no echo comes in.
            self.loopback.lose(now);
        }
        if !driver.outbox.is_connected() {
            return;
        }
        if let Some(echo) = self.loopback.send(now, driver.grants()) {
            driver.outbox.send_echo(&echo);
        }
    }

    /// Hands out the next checkpoint if one is due, under this revision of the rules.
    pub(crate) fn keep_checkpointed(&mut self, now: Time, driver: &mut CoreDriver, rules_revision: RulesRevision) {
        let due = self.next_checkpoint(now, driver).is_some_and(|due| due <= now);
        if !due || self.leadership.is_listening() || !driver.outbox.is_connected() {
            return;
        }
        if let Some(mut pending) = driver.checkpoint(now, rules_revision) {
            pending.epoch = self.epochs.of_checkpoint(pending.checkpoint.number, pending.epoch);
            pending.named_epoch = self.epochs.alarm(now);
            self.is_writing = self.writer.try_send(pending).is_ok();
        }
    }

    pub(crate) fn handover(&self, now: Time, driver: &mut CoreDriver, rules_revision: RulesRevision) -> Handover {
        let mut handover = driver.handover(now, rules_revision);
        handover.state.epoch = self.epochs.stored(handover.state.epoch);
        handover
    }

    /// Notes that the store or the standbys have taken a checkpoint, which shows that no other scheduler
    /// led at that time. Returns whether messages that were left unread are to be handled now.
    pub(crate) fn note_checkpoint(&mut self, now: Time, driver: &mut CoreDriver, safe: Event<ReplyTo>) -> bool {
        self.is_writing = false;
        let stored = if let Event::CheckpointStored(number) = safe { Some(number) } else { None };
        driver.handle(now, safe);
        if let Some(number) = stored {
            driver.tally.checkpoints += 1;
            if let Some(epoch) = self.epochs.note_stored(number) {
                self.raise_epoch(now, driver, epoch);
            }
        }
        let clears = driver.core().is_trusted() && self.leadership.clear(now);
        if clears {
            // The next echo follows at once.
            self.loopback.lose(now);
        }
        clears
    }

    /// Notes that the store has refused a checkpoint as too large. A smaller one follows.
    pub(crate) fn note_refused_checkpoint(&mut self, now: Time, driver: &mut CoreDriver, number: CheckpointNumber) {
        self.is_writing = false;
        driver.handle(now, Event::CheckpointRefused(number));
    }

    pub(crate) fn take_echo(&mut self, now: Time, driver: &mut CoreDriver, payload: &[u8]) {
        if let Some(sent_at) = self.loopback.take_echo(now, payload) {
            driver.handle(now, Event::Delivered);
            self.leadership.take_echo(sent_at);
        }
    }

    /// Checks the echo when nothing has arrived: if it has become late, so have answers.
    pub(crate) fn notice_late_echo(&mut self, now: Time, driver: &mut CoreDriver) {
        if self.loopback.notice_late(now) {
            driver.handle(now, Event::AnswersLate);
        }
    }

    /// Notes the epoch in a client's request. Any counts for a leader that listens and has revealed its own to nobody.
    pub(crate) fn note_named_epoch(&mut self, now: Time, driver: &mut CoreDriver, named: Option<Epoch>) {
        let is_secret = self.leadership.is_listening() && !driver.outbox.has_answered;
        let unknown = if is_secret { Epoch::FIRST } else { driver.core().epoch().next() };
        if !self.epochs.note(now, unknown, named) {
            return;
        }
        driver.tally.named_epochs += 1;
        if self.epochs.asks(now) {
            let (resource, epoch) = (driver.core().resource().name(), driver.core().epoch().get());
            tracing::warn!(
                %resource, epoch, named = named.map(Epoch::get),
                "a client names an epoch above ours, which changes no level; asking the store who leads. \
                 If the store was put back, `rampmeter empty` sets to zero what may be spent"
            );
            driver.handle(now, Event::HigherEpochNamed);
        }
    }

    /// Raises the epoch above one that a client has named, once the store has confirmed the leadership.
    fn raise_epoch(&self, now: Time, driver: &mut CoreDriver, epoch: Epoch) {
        let resource = driver.core().resource().name();
        tracing::warn!(
            %resource,
            epoch = epoch.get(),
            "this scheduler leads; its epoch rises, and every level stays as it is"
        );
        driver.handle(now, Event::EpochConfirmed(epoch));
        let epoch = driver.core().epoch();
        self.announce(driver, epoch);
    }

    fn begin(&mut self, driver: &mut CoreDriver) {
        if let Some(opened) = self.opened.take() {
            opened.send(()).ok();
        }
        let epoch = driver.core().epoch();
        self.announce(driver, epoch);
    }

    /// Announces the leader and this epoch to workers. Those that wait ask again.
    fn announce(&self, driver: &mut CoreDriver, epoch: Epoch) {
        driver.outbox.announce(&News::Leader { epoch, leader: self.leader.clone() });
    }
}

/// Begins in a store without a record, although a worker knows of a leader and thus of another store.
fn begin_in_another_store(now: Time, driver: &mut CoreDriver, epoch: Epoch) {
    let resource = driver.core().resource().name();
    tracing::error!(
        %resource,
        epoch = epoch.get(),
        "the store is new, and a worker knows of another: limits of short periods start empty; \
         `rampmeter empty` sets the levels of the others to zero"
    );
    driver.tally.store_went_back += 1;
    driver.handle(now, Event::StoreReplaced { epoch });
}
