//! The core of one term, which answers only while this process leads.

use crate::permits::answers::core_driver::CoreDriver;
use crate::permits::answers::loop_request::{Handover, PendingCheckpoint};
use crate::permits::checkpoint_queue::CheckpointQueue;
use crate::permits::incoming::permit_requests::PermitRequests;
use crate::permits::leader_announcement::LeaderAnnouncement;
use crate::permits::watch::leadership_check::{Finding, LeadershipCheck};
use crate::permits::watch::loopback_check::LoopbackCheck;
use crate::permits::watch::named_epoch::NamedEpoch;
use crate::permits::watch::stall_detector::HEARTBEAT;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::status::Status;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::ids::CheckpointNumber;
use rampmeter_store::RulesRevision;

/// How often a lost connection is checked.
const RECONNECT_POLL: Span = Span::from_millis(5);

/// The core, and everything that decides whether its answers may go out.
///
/// The core learns of every doubt before its next event. Checkpoints are handed out only while this
/// loop receives its own messages, so that a loop that receives nothing does not lead for ever.
#[derive(Debug)]
pub(crate) struct TermGuard {
    core: CoreDriver,
    leadership: LeadershipCheck,
    loopback: LoopbackCheck,
    epochs: NamedEpoch,
    announcement: LeaderAnnouncement,
    checkpoints: CheckpointQueue,
    /// How often the connection had been made when it was last looked at.
    connects: u64,
}

impl TermGuard {
    pub(crate) fn new(
        core: CoreDriver,
        (leadership, loopback): (LeadershipCheck, LoopbackCheck),
        announcement: LeaderAnnouncement,
        checkpoints: CheckpointQueue,
    ) -> Self {
        let (epochs, connects) = (NamedEpoch::new(), core.outlet().connects());
        TermGuard { core, leadership, loopback, epochs, announcement, checkpoints, connects }
    }

    /// Begins the term, unless this leader listens first. It is not announced before that: a worker
    /// that names its epoch has seen another leader.
    pub(crate) fn start(&mut self) {
        if !self.leadership.is_listening() {
            self.begin();
        }
    }

    pub(crate) fn core(&mut self) -> &mut CoreDriver {
        &mut self.core
    }

    /// Takes the requests that came in at `now`.
    pub(crate) fn requests(&mut self, now: Time) -> PermitRequests<'_> {
        PermitRequests::at(now, &mut self.core, &self.leadership, &mut self.epochs)
    }

    /// Whether messages are read.
    pub(crate) fn reads(&self) -> bool {
        self.leadership.reads()
    }

    /// Whether answers may go out, and can reach clients.
    pub(crate) fn may_answer(&self) -> bool {
        self.core.outlet().is_connected() && self.leadership.reads()
    }

    /// Whether a walk along waiting requests is under way.
    pub(crate) fn has_walk(&self) -> bool {
        self.core.outlet().has_walk()
    }

    pub(crate) fn status(&mut self, now: Time) -> Status {
        self.core.status(now, self.announcement.leader())
    }

    /// When the loop has something to do even if nothing comes in.
    pub(crate) fn next_look(&self, now: Time) -> Time {
        let heartbeat = now + HEARTBEAT;
        match (self.core.outlet().is_connected(), self.leadership.grants()) {
            (false, _) => now + RECONNECT_POLL,
            (true, false) => heartbeat,
            (true, true) => {
                let echo = self.loopback.next_look(self.core.grants());
                let due = self.next_checkpoint(now).into_iter().chain(self.core.next_wakeup().map(|wakeup| wakeup.at));
                due.chain([heartbeat, echo]).min().unwrap_or(heartbeat)
            }
        }
    }

    fn next_checkpoint(&self, now: Time) -> Option<Time> {
        let hears = self.loopback.is_alive(now);
        self.checkpoints.next(self.core.next_checkpoint()).filter(|_| hears)
    }

    /// Detects a standstill, a new connection, and the end of listening.
    pub(crate) fn check_leadership(&mut self, now: Time) {
        // A successor may lead that found this scheduler gone, and hears settles that come in here.
        let connects = self.core.outlet().connects();
        if std::mem::replace(&mut self.connects, connects) != connects {
            self.core.handle(now, Event::Doubt);
        }
        match self.leadership.look(now) {
            Some(Finding::StoodStill(away)) => {
                let resource = self.core.resource().name();
                tracing::warn!(%resource, standstill = %away, "this process stood still; checking which scheduler leads");
                self.core.tally().standstills += 1;
                self.loopback.lose(now);
                self.core.delivery().outbox().forget();
                self.core.handle(now, Event::Doubt);
            }
            Some(Finding::Listened(checkpoint)) => {
                match self.epochs.rise_now() {
                    None => self.core.handle(now, Event::CheckpointStored(checkpoint)),
                    Some(epoch) => self.begin_in_another_store(now, epoch),
                }
                self.begin();
            }
            None => {}
        }
    }

    /// Sends the echo that is due, as long as it can arrive.
    pub(crate) fn send_due_echo(&mut self, now: Time) {
        if !self.may_answer() {
            // While nothing is read, no echo comes in.
            self.loopback.lose(now);
        }
        if !self.core.outlet().is_connected() {
            return;
        }
        if let Some(echo) = self.loopback.send(now, self.core.grants()) {
            self.core.delivery().send_echo(&echo);
        }
    }

    /// Hands out the next checkpoint if it is due, under this revision of the rules.
    pub(crate) fn keep_checkpointed(&mut self, now: Time, rules_revision: RulesRevision) {
        let due = self.next_checkpoint(now).is_some_and(|due| due <= now);
        if !due || self.leadership.is_listening() || !self.core.outlet().is_connected() {
            return;
        }
        if let Some(pending) = self.core.checkpoint(now, rules_revision) {
            let epoch = self.epochs.of_checkpoint(pending.checkpoint.number, pending.epoch);
            self.checkpoints.push(PendingCheckpoint { epoch, named_epoch: self.epochs.alarm(now), ..pending });
        }
    }

    /// The whole state, for a successor.
    pub(crate) fn handover(&mut self, now: Time, rules_revision: RulesRevision) -> Handover {
        let handover = self.core.handover(now, rules_revision);
        Handover { epoch: self.epochs.stored(handover.epoch), ..handover }
    }

    /// Notes that the store has taken a checkpoint, which shows that no other scheduler led at that
    /// time. Returns whether messages that were left unread are to be taken now.
    pub(crate) fn note_checkpoint(&mut self, now: Time, number: CheckpointNumber) -> bool {
        self.checkpoints.note_answer();
        self.core.tally().checkpoints += 1;
        self.core.handle(now, Event::CheckpointStored(number));
        if let Some(epoch) = self.epochs.note_stored(number) {
            self.raise_epoch(now, epoch);
        }
        let token = if self.core.is_trusted() { self.leadership.clear(now) } else { None };
        if let Some(token) = &token {
            self.core.delivery().send_echo(token);
        }
        token.is_some()
    }

    /// Notes that the store has refused a checkpoint because of its size: a smaller one follows.
    pub(crate) fn note_refused_checkpoint(&mut self, now: Time, number: CheckpointNumber) {
        self.checkpoints.note_answer();
        self.core.handle(now, Event::CheckpointRefused(number));
    }

    /// Takes one of this loop's own messages.
    pub(crate) fn take_echo(&mut self, now: Time, payload: &[u8]) {
        if self.loopback.take_echo(now, payload) {
            self.core.handle(now, Event::Delivered);
        }
        self.leadership.take_echo(payload);
    }

    /// Notes that nothing has come in: if the echo has become late, so have answers.
    pub(crate) fn notice_late_echo(&mut self, now: Time) {
        if self.loopback.notice_late(now) {
            self.core.handle(now, Event::AnswersLate);
        }
    }

    /// Raises the epoch above one that a client has named, after the store has confirmed that this
    /// scheduler leads.
    fn raise_epoch(&mut self, now: Time, epoch: Epoch) {
        let resource = self.core.resource().name();
        tracing::warn!(
            %resource,
            epoch = epoch.get(),
            "this scheduler leads; its epoch rises, and every level stays as it is"
        );
        self.core.handle(now, Event::EpochConfirmed(epoch));
        self.announce();
    }

    /// Begins in a store without a record of the resource, although a worker knows of a leader:
    /// there was another store.
    fn begin_in_another_store(&mut self, now: Time, epoch: Epoch) {
        let resource = self.core.resource().name();
        tracing::error!(
            %resource,
            epoch = epoch.get(),
            "the store is new, and a worker knows of another: limits of short periods start empty; \
             `rampmeter empty` takes the stock of the others"
        );
        self.core.tally().store_went_back += 1;
        self.core.handle(now, Event::StoreReplaced { epoch });
    }

    /// Begins to grant permits.
    fn begin(&mut self) {
        self.announcement.open();
        self.announce();
    }

    fn announce(&mut self) {
        let news = self.announcement.news(self.core.epoch());
        self.core.delivery().announce(&news);
    }
}
