//! Leading one resource: from standing by to handing over.
//!
//! Only the compare-and-set on the resource's state record decides who leads. The probe in front
//! of it merely saves a scheduler that works from being pushed aside.

use super::health::{Duty, Health};
use super::permit_loop::{Handover, Order, Parts, Pulse, Report};
use super::permit_thread::{PermitThread, Running};
use super::reply::ReplyTo;
use crate::store::{Found, PermitRecord, Revision, StateRecord, Store, StoreError};
use async_nats::{Client, RequestErrorKind};
use rampmeter_protocol::clock::{Clock, unix_ms};
use rampmeter_protocol::event::Event;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::resource::Resource;
use rampmeter_scheduler_core::scheduler::Scheduler;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Pause between probes of a leader that answers.
const PROBE_EVERY: Duration = Duration::from_millis(250);
/// Pause after a failure, or after having lost a race: time enough for the winner to subscribe.
const AFTER_FAILURE: Duration = Duration::from_millis(1000);
/// How long a probe waits for a leader that has stopped answering.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Orders that may be under way: a report or two, and the handover.
const ORDERS: usize = 16;

/// What all tenures of a process share.
#[derive(Clone, Debug)]
pub struct Office {
    /// The connection for everything but permits.
    pub client: Client,
    /// Where state is kept.
    pub store: Store,
    /// Where loops run.
    pub permits: PermitThread,
    /// Where to subscribe.
    pub subjects: Subjects,
    /// What others see.
    pub health: Arc<Health>,
    /// The name of this scheduler process.
    pub leader: String,
}

/// One resource's tenure, over all its terms.
#[derive(Debug)]
pub struct Tenure {
    office: Office,
    resource: Resource,
    orders: watch::Sender<Option<mpsc::Sender<Order>>>,
    stop: watch::Receiver<bool>,
}

/// Asks a resource's loop how things stand, while this process leads it.
#[derive(Clone, Debug)]
pub struct Reporter(watch::Receiver<Option<mpsc::Sender<Order>>>);

impl Reporter {
    /// How things stand; nothing if another scheduler leads.
    pub async fn report(&self) -> Option<Report> {
        let orders = self.0.borrow().clone()?;
        let (to, report) = oneshot::channel();
        orders.send(Order::Report(to)).await.ok()?;
        tokio::time::timeout(PROBE_TIMEOUT, report).await.ok()?.ok()
    }
}

/// One term as leader.
struct Term {
    state: StateRecord,
    revision: Revision,
    orders: mpsc::Sender<Order>,
    pulse: watch::Receiver<Pulse>,
    running: Running,
}

/// How a term ended.
enum End {
    /// This process is to stop.
    Stopped,
    /// Another scheduler leads, or the loop is gone.
    Lost,
}

impl Tenure {
    /// A tenure of `resource` that ends when `stop` says so.
    #[must_use]
    pub fn new(office: Office, resource: Resource, stop: watch::Receiver<bool>) -> (Self, Reporter) {
        let (orders, reporter) = watch::channel(None);
        (Tenure { office, resource, orders, stop }, Reporter(reporter))
    }

    /// Stands by, leads, hands over.
    pub async fn run(mut self) {
        loop {
            let mut stop = self.stop.clone();
            let term = tokio::select! {
                biased;
                () = stopped(&mut stop) => break,
                term = self.win_term() => term,
            };
            if matches!(self.lead(term).await, End::Stopped) {
                break;
            }
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        self.duty(Duty::Stopping);
    }

    fn duty(&self, duty: Duty) {
        self.office.health.set(self.resource.name(), duty);
    }

    /// Returns when this process leads.
    async fn win_term(&self) -> Term {
        loop {
            self.until_vacant().await;
            match self.take_over().await {
                Ok(term) => return term,
                Err(error) => {
                    tracing::warn!(resource = %self.resource.name(), %error, "could not take the resource over");
                    self.duty(Duty::Troubled { reason: error.to_string() });
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Returns when nobody answers for the resource.
    async fn until_vacant(&self) {
        let status = self.office.subjects.status(self.resource.name());
        loop {
            let answer = self.office.client.request(status.clone(), "".into());
            match tokio::time::timeout(PROBE_TIMEOUT, answer).await {
                Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => return,
                Ok(Ok(_)) => self.duty(Duty::Standby),
                Ok(Err(error)) => self.duty(Duty::Troubled { reason: format!("the probe failed: {error}") }),
                Err(_) => self.duty(Duty::Troubled { reason: "the leader does not answer".to_owned() }),
            }
            tokio::time::sleep(PROBE_EVERY).await;
        }
    }

    /// Writes the next epoch into the state record, and starts the loop.
    async fn take_over(&self) -> anyhow::Result<Term> {
        let clock = Clock::start();
        let (mut core, revision) = self.restore(clock.now()).await?;
        let levels = core.levels(clock.now());
        let state = self.record(&Pulse { levels, epoch: core.epoch(), unix_ms: unix_ms() + 1 }, 0);
        let revision = self.office.store.write(self.resource.name(), &state, revision).await?;
        let (orders, taken) = mpsc::channel(ORDERS);
        let (pulse, pulses) = watch::channel(Pulse::default());
        let subjects = self.office.subjects.clone();
        let leader = self.office.leader.clone();
        let parts = Parts { core, subjects, clock, leader, orders: taken, pulse };
        let running = self.office.permits.run(parts).await?;
        Ok(Term { state, revision, orders, pulse: pulses, running })
    }

    /// The core as its predecessor left it, in the next epoch.
    async fn restore(&self, now: Time) -> Result<(Scheduler<ReplyTo>, Revision), StoreError> {
        let resource = self.resource.clone();
        match self.office.store.read(resource.name()).await? {
            Found::Nothing(revision) => {
                tracing::info!(resource = %resource.name(), start = ?resource.start(), "the store does not know the resource");
                Ok((Scheduler::new(resource, 1, now), revision))
            }
            Found::State(state, permits, revision) => {
                let away = Span::from_millis(unix_ms().saturating_sub(state.saved_unix_ms));
                tracing::info!(resource = %resource.name(), epoch = state.epoch, %away, permits = permits.len(), "going on from the stored state");
                let core = Scheduler::restore(resource, state.epoch + 1, now, now - away, &state.snapshot(&permits));
                Ok((core, revision))
            }
            Found::Newer(version) => {
                Err(StoreError::Unavailable(format!("its state is in format {version}, which a newer build wrote")))
            }
            Found::Damaged(damage, revision) => {
                tracing::error!(resource = %resource.name(), %damage, "the stored state is lost; every bucket starts empty");
                // Nobody knows the epoch any more; wall time is above any that was counted up.
                Ok((Scheduler::cautious(resource, unix_ms(), now), revision))
            }
        }
    }

    fn record(&self, pulse: &Pulse, permit_parts: usize) -> StateRecord {
        StateRecord {
            epoch: pulse.epoch,
            leader: self.office.leader.clone(),
            saved_unix_ms: pulse.unix_ms,
            permit_parts,
            levels: StateRecord::levels_of(&pulse.levels),
        }
    }

    async fn lead(&mut self, mut term: Term) -> End {
        let epoch = term.state.epoch;
        self.duty(Duty::Leading { epoch });
        self.orders.send_replace(Some(term.orders.clone()));
        self.announce(epoch).await;
        let end = self.keep_saving(&mut term).await;
        self.orders.send_replace(None);
        match end {
            End::Stopped => self.hand_over(term).await,
            End::Lost => {
                tracing::error!(resource = %self.resource.name(), "another scheduler leads now; stepping down");
            }
        }
        end
    }

    async fn announce(&self, epoch: u64) {
        let event = Event::Leader { epoch, leader: self.office.leader.clone() };
        let payload = serde_json::to_vec(&event).expect("events are plain data");
        let subject = self.office.subjects.event(self.resource.name());
        if let Err(error) = self.office.client.publish(subject, payload.into()).await {
            tracing::warn!(%error, "the new leader could not be announced");
        }
    }

    /// Writes levels as they change, until the process stops or somebody else leads.
    async fn keep_saving(&mut self, term: &mut Term) -> End {
        let mut saved = true;
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut self.stop) => return End::Stopped,
                _ = &mut term.running => return End::Lost,
                changed = term.pulse.changed() => if changed.is_err() { return End::Lost },
                () = tokio::time::sleep(AFTER_FAILURE), if !saved => {}
            }
            let pulse = term.pulse.borrow_and_update().clone();
            let done = self.save(&self.record(&pulse, 0), term.revision).await;
            saved = done.is_ok();
            match done {
                Ok(revision) => {
                    self.duty(Duty::Leading { epoch: pulse.epoch });
                    term.revision = revision;
                }
                Err(StoreError::Superseded) => return End::Lost,
                Err(StoreError::Unavailable(reason)) => {
                    tracing::warn!(%reason, "levels could not be saved");
                    self.duty(Duty::Troubled { reason });
                }
            }
        }
    }

    /// Writes the record over the one with `revision`. A write that timed out may have been done after all, so that
    /// a record that has moved on by our own hand is written over as well.
    async fn save(&self, state: &StateRecord, revision: Revision) -> Result<Revision, StoreError> {
        let (store, name) = (&self.office.store, self.resource.name());
        let done = store.write(name, state, revision).await;
        if !matches!(done, Err(StoreError::Superseded)) {
            return done;
        }
        match store.read(name).await? {
            Found::State(found, _, revision) if found.leader == state.leader => {
                store.write(name, state, revision).await
            }
            Found::State(..) | Found::Nothing(_) | Found::Damaged(..) | Found::Newer(_) => done,
        }
    }

    /// Sends everybody elsewhere and writes down all that a successor must know.
    async fn hand_over(&self, term: Term) {
        self.duty(Duty::Stopping);
        let (to, handover) = oneshot::channel();
        if term.orders.send(Order::HandOver(to)).await.is_err() {
            return;
        }
        let Ok(handover) = handover.await else { return };
        match self.save_all(&term, handover).await {
            Ok(permits) => tracing::info!(resource = %self.resource.name(), permits, "state is saved"),
            Err(error) => {
                tracing::error!(resource = %self.resource.name(), %error, "the last state could not be saved");
            }
        }
        drop(term.orders);
        term.running.await.ok();
    }

    async fn save_all(&self, term: &Term, handover: Handover) -> Result<usize, StoreError> {
        let name = self.resource.name();
        let permits: Vec<PermitRecord> = handover.snapshot.permits.iter().map(PermitRecord::of).collect();
        let parts = self.office.store.write_permits(name, handover.epoch, &permits).await?;
        let pulse = Pulse { levels: handover.snapshot.levels, epoch: handover.epoch, unix_ms: handover.unix_ms };
        self.save(&self.record(&pulse, parts), term.revision).await?;
        Ok(permits.len())
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    stop.wait_for(|stop| *stop).await.ok();
}
