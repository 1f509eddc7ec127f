//! Leading one resource: from standing by to handing over.
//!
//! Only the compare-and-set on the resource's state record decides who leads. Whatever `standby` sees
//! merely decides who tries.

use crate::denials::Denials;
use crate::serve::health::{Duty, Health};
use crate::serve::leadership::last_seen::{LastSeenRecord, note};
use crate::serve::leadership::peers::Peers;
use crate::serve::limits::effective_limits::{EffectiveLimits, NewRules};
use crate::serve::messages::inbound::Inbound;
use crate::serve::permits::permit_loop::{Handover, Order, Pending, Report};
use crate::serve::permits::permit_thread::{PermitThreads, RunningLoop};
use crate::serve::permits::stall_detector::ProcessWatch;
use crate::store::{
    CLOCK_KEY, Found, FoundState, KeysRecord, LevelRecord, PermitRecord, Revision, StateRecord, Store, StoreError,
    freezes_of,
};
use anyhow::bail;
use async_nats::Client;
use rampmeter_dialects::Reader;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::subject::Subjects;
use rampmeter_scheduler_core::durability::snapshot::NewPage;
use rampmeter_scheduler_core::ids::CheckpointNumber;
use rampmeter_scheduler_core::policy::resource::Resource;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(250);
/// A write that takes longer may not come at all; a healthy store takes a millisecond.
const LATE: Duration = Duration::from_millis(500);
/// How long a report may take.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a leader looks whether the resource would be better off with another.
const BALANCE_EVERY: Duration = Duration::from_secs(2);
/// Orders that may be under way: a report or two, a mark, and the handover.
pub(crate) const ORDERS: usize = 16;
/// Messages from this process that may be under way; what is beyond goes over NATS.
pub(crate) const INBOUND: usize = 1024;

/// What all leaders of a process share.
#[derive(Clone, Debug)]
pub struct LeaderContext {
    /// The connection for everything but permits.
    pub client: Client,
    /// What the server does not permit on it.
    pub denials: Denials,
    /// Where state is kept.
    pub store: Store,
    /// Where loops run.
    pub permits: PermitThreads,
    /// Where to subscribe.
    pub subjects: Subjects,
    /// What others see.
    pub health: Arc<Health>,
    /// Who else is there.
    pub peers: Arc<Peers>,
    /// The clock of this process.
    pub clock: Clock,
    /// Tells when this process stood still.
    pub process: Arc<ProcessWatch>,
    /// The name of this scheduler process.
    pub leader: String,
}

/// Leads one resource, over all terms of this process.
#[derive(Debug)]
pub struct ResourceLeader {
    pub(crate) context: LeaderContext,
    pub(crate) resource: Resource,
    /// Reads what the resource's upstream answers.
    pub(crate) reader: Reader,
    /// The kind of its provider, if it has one.
    pub(crate) provider: Option<&'static str>,
    /// The latest state that is known.
    pub(crate) seen: Option<LastSeenRecord>,
    /// The server that held the store when this process first read a record there.
    pub(crate) first_server: Option<String>,
    /// The limits that count.
    pub(crate) rules: EffectiveLimits,
    lead: LoopPublisher,
    stop: watch::Receiver<bool>,
}

/// Shows the handle of the loop of a resource, while this process leads it.
pub type LoopPublisher = watch::Sender<Option<LoopHandle>>;

/// Sees the handle of the loop of a resource.
pub type LoopWatch = watch::Receiver<Option<LoopHandle>>;

/// How a loop is reached from its own process.
#[derive(Clone, Debug)]
pub struct LoopHandle {
    /// What it is to do.
    pub orders: mpsc::Sender<Order>,
    /// What it is asked, as over NATS.
    pub inbound: mpsc::Sender<Inbound>,
}

/// Asks a resource's loop how things stand, while this process leads it.
#[derive(Clone, Debug)]
pub struct Reporter(pub LoopWatch);

impl Reporter {
    /// How things stand; nothing if another scheduler leads.
    pub async fn report(&self) -> Option<Report> {
        let LoopHandle { orders, .. } = self.0.borrow().clone()?;
        let (to, report) = oneshot::channel();
        orders.send(Order::Report(to)).await.ok()?;
        tokio::time::timeout(REPORT_TIMEOUT, report).await.ok()?.ok()
    }
}

/// One term as leader.
pub(crate) struct Term {
    pub(crate) epoch: u64,
    pub(crate) nonce: u64,
    pub(crate) revision: Revision,
    /// Pages of marks that were taken and are not known to be written: whatever is written next may name them.
    pub(crate) pages: Vec<NewPage>,
    pub(crate) handle: LoopHandle,
    pub(crate) marks: mpsc::Receiver<Pending>,
    /// Resolves when permits are granted.
    pub(crate) opened: oneshot::Receiver<()>,
    pub(crate) running: RunningLoop,
    /// How often the connection had been made when the record was last known to be ours; `None` if it may not be any more.
    pub(crate) connects: Option<u64>,
}

/// How a term ended.
enum End {
    /// This process is to stop.
    Stopped,
    /// The resource goes over to this scheduler.
    Moved(String),
    /// Another scheduler leads.
    Lost,
    /// The loop is gone, which is nobody's will.
    Broken,
}

impl ResourceLeader {
    /// A leader of `resource`, whose limits a provider of the kind `provider` knows and `rules` can change, that ends when `stop` says so.
    #[must_use]
    pub fn new(
        context: LeaderContext,
        resource: Resource,
        reader: Reader,
        provider: Option<&'static str>,
        rules: EffectiveLimits,
        lead: LoopPublisher,
        stop: watch::Receiver<bool>,
    ) -> Self {
        ResourceLeader { context, resource, reader, provider, seen: None, first_server: None, rules, lead, stop }
    }

    /// Stands by, leads, hands over.
    ///
    /// # Errors
    /// If a loop ends that should go on: what is left of this process can't be trusted with the resource.
    pub async fn run(mut self) -> anyhow::Result<()> {
        loop {
            let mut stop = self.stop.clone();
            let term = tokio::select! {
                biased;
                () = stopped(&mut stop) => break,
                term = self.win_term() => term,
            };
            match self.lead(term).await {
                End::Moved(_) | End::Lost => {}
                End::Stopped => break,
                End::Broken => bail!("the permit loop of `{}` has ended", self.resource.name()),
            }
        }
        self.duty(Duty::Stopping);
        Ok(())
    }

    pub(crate) fn duty(&self, duty: Duty) {
        self.context.health.set(self.resource.name(), duty);
    }

    /// Why the store failed: the server says it, where it does not permit something.
    pub(crate) fn reason(&self, error: &impl ToString) -> String {
        self.context.denials.reason(&[&**self.resource.name(), CLOCK_KEY], error)
    }

    /// Returns when this process leads.
    async fn win_term(&mut self) -> Term {
        loop {
            self.until_vacant().await;
            match self.take_over().await {
                Ok(term) => return term,
                Err(error) if matches!(error.downcast_ref(), Some(StoreError::Superseded)) => {
                    tracing::info!(resource = %self.resource.name(), "another scheduler was faster");
                }
                Err(error) => {
                    let reason = self.reason(&error);
                    tracing::warn!(resource = %self.resource.name(), reason, "could not take the resource over");
                    self.duty(Duty::Troubled { reason });
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    async fn lead(&mut self, mut term: Term) -> End {
        self.context.peers.leads(self.resource.name(), &self.context.leader);
        self.lead.send_replace(Some(term.handle.clone()));
        let end = self.keep_writing(&mut term).await;
        self.lead.send_replace(None);
        match &end {
            End::Stopped => self.hand_over(term, None).await,
            End::Moved(successor) => self.hand_over(term, Some(successor.clone())).await,
            End::Lost => {
                tracing::error!(resource = %self.resource.name(), "another scheduler leads now; stepping down");
                self.context.peers.vacant(self.resource.name());
                ended(term).await;
            }
            End::Broken => self.duty(Duty::Troubled { reason: "its permit loop has ended".to_owned() }),
        }
        end
    }

    /// Writes marks as they are needed, until the process stops or somebody else leads.
    async fn keep_writing(&mut self, term: &mut Term) -> End {
        let mut balance = tokio::time::interval(BALANCE_EVERY);
        balance.reset();
        let mut opened = false;
        loop {
            let mut stop = self.stop.clone();
            let pending = tokio::select! {
                biased;
                () = stopped(&mut stop) => return End::Stopped,
                _ = &mut term.running => return End::Broken,
                _ = &mut term.opened, if !opened => {
                    opened = true;
                    self.duty(Duty::Leading { epoch: term.epoch });
                    continue;
                }
                () = self.rules.changed() => {
                    let Some(rules) = self.take_rules() else { continue };
                    match term.handle.orders.send(Order::Rules(rules)).await {
                        Ok(()) => continue,
                        Err(_) => return End::Broken,
                    }
                }
                pending = term.marks.recv() => pending,
                _ = balance.tick() => {
                    match self.context.peers.better_off_with(self.now(), self.resource.name()) {
                        Some(other) => return End::Moved(other),
                        None => continue,
                    }
                }
            };
            let Some(mut pending) = pending else { return End::Broken };
            term.pages.append(&mut pending.mark.state.new_pages);
            let number = pending.mark.number;
            tokio::select! {
                biased;
                () = stopped(&mut stop) => return End::Stopped,
                kept = self.keep(term, pending) => if kept.is_err() { return End::Lost },
            }
            self.duty(Duty::Leading { epoch: term.epoch });
            if term.handle.orders.send(Order::Marked(number)).await.is_err() {
                return End::Broken;
            }
        }
    }

    /// Takes the rules that are known now. What is to be done, if they are others than before.
    pub(crate) fn take_rules(&mut self) -> Option<NewRules> {
        let new = self.rules.take(&self.resource)?;
        if let Some(resource) = &new.resource {
            self.resource = (**resource).clone();
        }
        Some(new)
    }

    /// Writes a mark, for as long as it takes.
    async fn keep(&mut self, term: &mut Term, pending: Pending) -> Result<CheckpointNumber, StoreError> {
        term.epoch = pending.epoch;
        let record = self.record(&pending, term.nonce);
        let (orders, mut told, mut complained) = (term.handle.orders.clone(), false, false);
        loop {
            match told_if_late(self.save_with_pages(term, &record), &orders, &mut told).await {
                Ok(()) => return Ok(pending.mark.number),
                Err(superseded @ StoreError::Superseded) => return Err(superseded),
                Err(StoreError::Unavailable(reason)) => {
                    // A bucket that was made anew meanwhile counts its revisions anew.
                    term.connects = None;
                    let gone = Store::trouble(&self.context.client, self.context.subjects.prefix()).await;
                    let reason = gone.unwrap_or_else(|| self.reason(&reason));
                    if !complained {
                        tracing::error!(resource = %self.resource.name(), %reason, "the mark could not be written");
                        complained = true;
                    }
                    tell_once(&orders, &mut told).await;
                    self.duty(Duty::Troubled { reason });
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Writes a record, and the pages that it may name first.
    async fn save_with_pages(&mut self, term: &mut Term, record: &StateRecord) -> Result<(), StoreError> {
        self.context.store.write_pages(self.resource.name(), &term.pages).await?;
        self.save(term, record).await?;
        term.pages.clear();
        Ok(())
    }

    /// Writes a record over the one that is ours.
    async fn save(&mut self, term: &mut Term, record: &StateRecord) -> Result<(), StoreError> {
        let connects = self.connects();
        // After a power loss a revision can come twice: on another connection than before it proves nothing.
        if term.connects != Some(connects) {
            self.find_own(term).await?;
            term.connects = Some(connects);
        }
        let name = self.resource.name().clone();
        match self.context.store.write(&name, record, term.revision).await {
            Ok(revision) => {
                term.revision = revision;
                note(&mut self.seen, self.context.clock.now(), record.clone(), revision);
                Ok(())
            }
            // A write that timed out may have been done after all.
            Err(StoreError::Superseded) => {
                self.find_own(term).await?;
                term.revision = self.context.store.write(&name, record, term.revision).await?;
                note(&mut self.seen, self.context.clock.now(), record.clone(), term.revision);
                Ok(())
            }
            Err(unavailable @ StoreError::Unavailable(_)) => Err(unavailable),
        }
    }

    /// Takes the revision of the record, if nobody but this term has written it. If it is gone, or older than it should be,
    /// what this term knows is still true, and is written once more. Whoever else has written it may be granting.
    async fn find_own(&mut self, term: &mut Term) -> Result<(), StoreError> {
        let Found { revision, state } = self.context.store.read(self.resource.name()).await?;
        match state {
            FoundState::Record(found) if found.nonce == term.nonce => {}
            FoundState::Nothing | FoundState::Damaged(..) => {
                tracing::error!(resource = %self.resource.name(), "the stored state is gone or damaged; writing it anew");
            }
            FoundState::Record(_) | FoundState::Newer(_) => return Err(StoreError::Superseded),
        }
        if revision < term.revision {
            tracing::error!(resource = %self.resource.name(), revision, known = term.revision, "the store went back");
        }
        term.revision = revision;
        Ok(())
    }

    /// How often the connection was made.
    pub(crate) fn connects(&self) -> u64 {
        self.context.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Sends everybody elsewhere and writes down all that a successor must know.
    async fn hand_over(&mut self, mut term: Term, successor: Option<String>) {
        self.duty(if successor.is_some() { Duty::Standby } else { Duty::Stopping });
        let (to, handover) = oneshot::channel();
        if term.handle.orders.send(Order::HandOver(to)).await.is_err() {
            return;
        }
        let Ok(mut handover) = handover.await else { return };
        while let Ok(mut pending) = term.marks.try_recv() {
            term.pages.append(&mut pending.mark.state.new_pages);
        }
        term.pages.append(&mut handover.snapshot.new_pages);
        match self.save_all(&mut term, handover, successor).await {
            Ok(permits) => tracing::info!(resource = %self.resource.name(), permits, "state is saved"),
            Err(error) => {
                let reason = self.reason(&error);
                tracing::error!(resource = %self.resource.name(), reason, "the last state could not be saved");
            }
        }
        self.context.peers.vacant(self.resource.name());
        ended(term).await;
    }

    async fn save_all(
        &mut self,
        term: &mut Term,
        handover: Handover,
        successor: Option<String>,
    ) -> Result<usize, StoreError> {
        let permits: Vec<PermitRecord> = handover.snapshot.permits.iter().map(PermitRecord::of).collect();
        let permit_parts = self.context.store.write_permits(self.resource.name(), handover.epoch, &permits).await?;
        let record = StateRecord {
            epoch: handover.epoch,
            leader: self.context.leader.clone(),
            nonce: term.nonce,
            mark: u64::MAX,
            released: true,
            successor,
            saved: handover.moment,
            permit_parts,
            levels: LevelRecord::all_of(&handover.snapshot.levels, &[]),
            keys: KeysRecord::of(&handover.snapshot.keys),
            freezes: freezes_of(&handover.snapshot.freezes),
            rules: handover.rules,
            server: self.context.store.server(),
        };
        self.save_with_pages(term, &record).await?;
        Ok(permits.len())
    }
}

/// The outcome of a write. The term's loop hears when it is late: it need not wait until the write is given up.
async fn told_if_late<T>(write: impl Future<Output = T>, orders: &mpsc::Sender<Order>, told: &mut bool) -> T {
    let mut write = std::pin::pin!(write);
    if let Ok(outcome) = tokio::time::timeout(LATE, &mut write).await {
        return outcome;
    }
    tell_once(orders, told).await;
    write.await
}

/// Says that the store is lost, once for each mark.
async fn tell_once(orders: &mpsc::Sender<Order>, told: &mut bool) {
    if !std::mem::replace(told, true) {
        orders.send(Order::StoreLost).await.ok();
    }
}

/// Lets the term's loop say its last words.
async fn ended(term: Term) {
    let Term { handle, running, .. } = term;
    drop(handle);
    running.await.ok();
}

/// Returns when `stop` says so.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    stop.wait_for(|stop| *stop).await.ok();
}
