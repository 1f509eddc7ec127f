//! Leads one resource, from standing by to handing over.

use crate::health::ServingState;
use crate::leadership::predecessor_state::{PredecessorState, is_fresh};
use crate::leadership::resource_state::ResourceState;
use crate::leadership::standby::failover::Failover;
use crate::leadership::standby::memory;
use crate::leadership::state_writer::StateWriter;
use crate::leadership::store_clock;
use crate::leadership::usage_book::UsageBook;
use crate::limits::limit_sources::LimitSources;
use crate::messages::reply::ReplyTo;
use crate::permits::answers::loop_request::{Handover, LoopRequest, LoopState};
use crate::permits::loop_handle::{LeaderChannels, LoopPublisher, ask, channels};
use crate::permits::permit_loop::{Parts, Upstream};
use crate::permits::permit_thread::{PermitThreads, RunningLoop};
use crate::stop::{Stop, stopped};
use anyhow::bail;
use rampmeter_policy::Resource;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::log_throttle::LogThrottle;
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_scheduler_core::views::Use;
use rampmeter_store::{Revision, Store, StoreError, StoredEntry, StoredState};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// The message of a panic without the first checkpoint of a term.
const OPEN: &str = "a new budget is open for checkpoints";
const AFTER_FAILURE: Duration = Duration::from_millis(250);
/// A longer write is reported as late. A healthy store takes a millisecond.
const LATE: Duration = Duration::from_millis(500);
/// How often the first checkpoint of a term is made smaller. The last one lists no key any more.
const HALVINGS: usize = 8;
/// How often a leader checks whether another scheduler should lead the resource.
const BALANCE_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct ResourceLeader {
    pub(crate) state: ResourceState,
    pub(crate) resource: Resource,
    pub(crate) upstream: Upstream,
    /// Records the last use of a term.
    pub(crate) uses: UsageBook,
    pub(crate) permits: PermitThreads,
    pub(crate) limits: LimitSources,
    pub(crate) led: LoopPublisher,
    /// Ends the leader, including its term.
    pub(crate) stop: Stop,
    pub(crate) log: LogThrottle,
}

struct Term {
    epoch: Epoch,
    writer: StateWriter,
    channels: LeaderChannels,
    running: RunningLoop,
}

enum End {
    Stopped,
    /// The resource moves to this scheduler.
    Moved(String),
    Lost,
    /// The loop has ended by itself.
    Broken,
}

impl ResourceLeader {
    /// Stands by, leads and hands over until the process stops. Fails if a loop ends early: replace the process then.
    pub(crate) async fn run(mut self) -> anyhow::Result<()> {
        let (context, name) = (self.state.context.clone(), self.resource.name().clone());
        let mut standing_by = JoinSet::new();
        standing_by.spawn(memory::answer(context, name, self.state.memory.clone()));
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
        self.state.set_duty(ServingState::Stopping);
        Ok(())
    }

    /// Stands by until this process leads.
    async fn win_term(&mut self) -> Term {
        loop {
            let leads_alone = Failover::new(&mut self.state).until_vacant().await;
            let error = match self.take_over(leads_alone).await {
                Ok(term) => return term,
                Err(error) => error,
            };
            let resource = self.resource.name();
            if let Some(StoreError::Superseded) = error.downcast_ref() {
                tracing::info!(%resource, "another scheduler was faster");
                continue;
            }
            let reason = self.state.reason(&error);
            let now = self.state.context.clock.now();
            if let Some(left_out) = self.log.admit(now, "take-over") {
                tracing::warn!(%resource, reason, left_out, "could not take the resource over");
            }
            self.state.set_duty(ServingState::Troubled { reason });
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }

    /// Stores the next epoch's first checkpoint, and starts the loop. If `leads_alone`, all settles come to this one.
    async fn take_over(&mut self, leads_alone: bool) -> anyhow::Result<Term> {
        let context = self.state.context.clone();
        let found = context.store.read(self.resource.name()).await?;
        let (revision, fresh) = (found.revision, is_fresh(&found));
        self.check_vacant(&found)?;
        if let StoredState::Record(record) = &found.state {
            self.limits.reach(record.rules_revision).await;
        }
        if let Some(resource) = self.limits.take_rules() {
            self.resource = resource;
        }
        let wall_clock = context.store.wall_clock_origin(context.clock).await?;
        let predecessor = PredecessorState::of(&self.state, found).await?;
        let now = self.state.now();
        // Windows are cut by the store's clock, and elapsed time counts on from here.
        let resource = self.resource.clone().with_wall_clock(wall_clock);
        // Restoring a long record takes time, in which checkpoints and probes of other resources go on.
        let restoring = tokio::task::spawn_blocking(move || predecessor.restore(resource, now));
        let (mut core, discovery) = restoring.await?;
        if leads_alone {
            core.lead_alone();
        }
        let checkpoint = core.checkpoint(now).expect(OPEN);
        let first = LoopState::of(checkpoint, discovery.snapshot(now), core.epoch(), self.limits.revision());
        let (first, writer) = self.begin_term(first, revision, &mut core, now).await?;
        let number = first.checkpoint.number;
        if !fresh {
            core.handle(now, Event::CheckpointStored(number));
        }
        let (channels, loop_channels) = channels();
        let parts = Parts {
            core,
            discovery,
            upstream: self.upstream.clone(),
            context: context.clone(),
            channels: loop_channels,
            unconfirmed: fresh.then_some(number),
            limits: self.limits.clone(),
        };
        let running = self.permits.run(parts).await?;
        let (name, orders) = (self.resource.name().clone(), channels.handle.orders.downgrade());
        tokio::spawn(store_clock::watch(name, context.store, context.clock, orders, wall_clock));
        Ok(Term { epoch: first.epoch, writer, channels, running })
    }

    /// Writes the first checkpoint of a term, smaller again while it is too large for the store.
    async fn begin_term(
        &mut self,
        mut first: LoopState,
        revision: Revision,
        core: &mut Scheduler<ReplyTo>,
        now: Time,
    ) -> Result<(LoopState, StateWriter), StoreError> {
        for _ in 0..HALVINGS {
            match StateWriter::begin(&mut self.state, &first, revision).await {
                Err(StoreError::TooLarge(_)) => {
                    core.handle(now, Event::CheckpointRefused(first.checkpoint.number));
                    first.checkpoint = core.checkpoint(now).expect(OPEN);
                }
                written => return written.map(|writer| (first, writer)),
            }
        }
        StateWriter::begin(&mut self.state, &first, revision).await.map(|writer| (first, writer))
    }

    /// Fails if another scheduler has taken the resource since it was found vacant.
    fn check_vacant(&mut self, found: &StoredEntry) -> Result<(), StoreError> {
        let (StoredState::Record(record), Some(seen)) = (&found.state, self.state.seen()) else { return Ok(()) };
        let another = !record.released && record.nonce != seen.record.nonce;
        if another && !seen.is_later_than(record, found.revision) {
            self.state.note((**record).clone(), found.revision);
            return Err(StoreError::Superseded);
        }
        Ok(())
    }

    async fn lead(&mut self, mut term: Term) -> End {
        let context = &self.state.context;
        context.peers.leads(self.resource.name(), &context.leader);
        self.led.send_replace(Some(term.channels.handle.clone()));
        let end = self.keep_writing(&mut term).await;
        self.led.send_replace(None);
        match &end {
            End::Stopped => self.hand_over(term, None).await,
            End::Moved(successor) => self.hand_over(term, Some(successor.clone())).await,
            End::Lost => {
                tracing::error!(resource = %self.resource.name(), "another scheduler leads now; stepping down");
                self.state.context.peers.vacant(self.resource.name());
                self.keep_last_use(&term).await;
                ended(term).await;
            }
            End::Broken => {
                self.state.set_duty(ServingState::Troubled { reason: "its permit loop has ended".to_owned() });
            }
        }
        end
    }

    /// Writes the loop's checkpoints until the process stops, the resource moves, or another scheduler leads.
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
                _ = &mut term.channels.opened, if !opened => {
                    opened = true;
                    self.state.set_duty(ServingState::Leading { epoch: term.epoch, named_epoch: None });
                    continue;
                }
                () = self.limits.changed() => match term.channels.handle.orders.send(LoopRequest::Rules).await {
                    Ok(()) => continue,
                    Err(_) => return End::Broken,
                },
                pending = term.channels.checkpoints.recv() => pending,
                _ = balance.tick() => {
                    let peers = &self.state.context.peers;
                    match peers.better_off_with(self.state.now(), self.resource.name()) {
                        Some(other) => return End::Moved(other),
                        None => continue,
                    }
                }
            };
            let Some(mut pending) = pending else { return End::Broken };
            term.writer.take_pages(&mut pending);
            term.epoch = pending.epoch;
            let orders = term.channels.handle.orders.clone();
            tokio::select! {
                biased;
                () = stopped(&mut stop) => return End::Stopped,
                kept = self.keep(&mut term.writer, &pending, &orders) => match kept {
                    None => return End::Lost,
                    Some(outcome) => if orders.send(outcome).await.is_err() { return End::Broken },
                },
            }
            self.state.set_duty(ServingState::Leading { epoch: term.epoch, named_epoch: pending.named_epoch });
        }
    }

    /// Has store or standbys hold a checkpoint, and returns the report for the loop. `None` if another leads.
    async fn keep(
        &mut self,
        writer: &mut StateWriter,
        pending: &LoopState,
        orders: &mpsc::Sender<LoopRequest>,
    ) -> Option<LoopRequest> {
        let witnessed = writer.witnessed(&self.state, pending);
        tokio::select! {
            biased;
            kept = self.write(writer, pending, orders) => return kept,
            () = witnessed => {}
        }
        writer.note_failure();
        if let Some(left_out) = self.log.admit(self.state.now(), "silent store") {
            tracing::warn!(resource = %self.resource.name(), left_out, "the store is silent; the standbys hold the checkpoints");
        }
        Some(LoopRequest::CheckpointWitnessed(pending.checkpoint.number))
    }

    /// Writes a checkpoint, and retries until the store has taken or refused it. `None` if another leads.
    async fn write(
        &mut self,
        writer: &mut StateWriter,
        pending: &LoopState,
        orders: &mpsc::Sender<LoopRequest>,
    ) -> Option<LoopRequest> {
        let number = pending.checkpoint.number;
        let (mut is_reported, mut complained) = (false, false);
        loop {
            let reason = match reported_if_late(
                writer.write_checkpoint(&mut self.state, pending),
                orders,
                &mut is_reported,
            )
            .await
            {
                Ok(()) => return Some(LoopRequest::CheckpointWritten(number)),
                Err(StoreError::Superseded) => return None,
                Err(error @ StoreError::TooLarge(_)) => {
                    tracing::error!(resource = %self.resource.name(), %error, "the next checkpoint is made smaller");
                    return Some(LoopRequest::CheckpointRefused(number));
                }
                Err(StoreError::Unavailable(reason)) => reason,
            };
            writer.note_failure();
            let context = &self.state.context;
            let gone = Store::trouble(&context.client, context.subjects.prefix()).await;
            let reason = gone.unwrap_or_else(|| self.state.reason(&reason));
            if !complained {
                tracing::error!(resource = %self.resource.name(), %reason, "the checkpoint could not be written");
                complained = true;
            }
            report_once(orders, &mut is_reported).await;
            self.state.set_duty(ServingState::Troubled { reason });
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }

    /// Has the loop send all waiting requests elsewhere, and writes its state for a successor.
    async fn hand_over(&mut self, mut term: Term, successor: Option<String>) {
        self.state.set_duty(if successor.is_some() { ServingState::Standby } else { ServingState::Stopping });
        let (to, handover) = oneshot::channel();
        if term.channels.handle.orders.send(LoopRequest::HandOver(to)).await.is_err() {
            return;
        }
        let Ok(Handover { mut state, used }) = handover.await else { return };
        while let Ok(mut pending) = term.channels.checkpoints.try_recv() {
            term.writer.take_pages(&mut pending);
        }
        term.writer.take_pages(&mut state);
        let resource = self.resource.name();
        match term.writer.write_handover(&mut self.state, &state, successor).await {
            Ok(permits) => tracing::info!(%resource, permits, "state is saved"),
            Err(error) => {
                let reason = self.state.reason(&error);
                tracing::error!(%resource, reason, "the last state could not be saved");
            }
        }
        self.state.context.peers.vacant(resource);
        tokio::join!(self.keep_use(&used), ended(term));
    }

    /// Keeps the use counted by the loop of a lost term, because its calls were made.
    async fn keep_last_use(&self, term: &Term) {
        if let Some(used) = ask(&term.channels.handle.orders, LoopRequest::TakeUse).await {
            self.keep_use(&used).await;
        }
    }

    async fn keep_use(&self, used: &Use) {
        let written = tokio::time::timeout(LATE, self.uses.add(used)).await;
        if let Err(reason) =
            written.map_err(|late| late.to_string()).and_then(|done| done.map_err(|error| error.to_string()))
        {
            tracing::warn!(resource = %self.resource.name(), reason, "the last usage of this term may be lost");
        }
    }
}

/// Awaits a write, and reports it to the term's loop when it is late.
async fn reported_if_late<T>(
    write: impl Future<Output = T>,
    orders: &mpsc::Sender<LoopRequest>,
    is_reported: &mut bool,
) -> T {
    let mut write = std::pin::pin!(write);
    if let Ok(outcome) = tokio::time::timeout(LATE, &mut write).await {
        return outcome;
    }
    report_once(orders, is_reported).await;
    write.await
}

async fn report_once(orders: &mpsc::Sender<LoopRequest>, is_reported: &mut bool) {
    if !std::mem::replace(is_reported, true) {
        orders.send(LoopRequest::StoreLost).await.ok();
    }
}

/// Ends the term's loop, once it has sent its last answers.
async fn ended(term: Term) {
    let Term { channels, running, .. } = term;
    drop(channels.handle);
    running.await.ok();
}
