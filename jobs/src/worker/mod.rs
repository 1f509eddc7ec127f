//! Workers, which run jobs.

pub(super) mod arrivals;
pub(super) mod attempt;
pub(super) mod failure;
pub(super) mod held_lease;
pub(super) mod job_runner;
pub(super) mod lane_run;
pub(super) mod retry_policy;
pub(super) mod shared;

use crate::lane::lease::{LaneLease, Receipt};
use crate::lane::{LaneMessage, class_name};
use crate::store::opening::existing_consumer;
use crate::worker::held_lease::HeldLease;
use crate::{Attempt, Failure, Queue, QueueError, store::pull};
use async_nats::Message;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::{self, AckKind};
use lane_run::run_lane;
use rampmeter_protocol::name::Name;
use rampmeter_worker_sdk::Resource;
use rampmeter_worker_sdk::call::Reply;
use retry_policy::RetryPolicy;
use shared::{Handler, Shared};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

const SLOTS: usize = 16;
const ATTEMPTS: u32 = 5;
const PERMIT_WAIT: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Bound on the concurrent jobs of a group, so that their waits fit into one small message.
const MAX_CONCURRENCY: usize = 64;

/// Options of a [`Worker`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs until `start`"]
pub struct WorkerBuilder {
    queue: Queue,
    resource: Resource,
    classes: Vec<String>,
    slots: usize,
    concurrency: usize,
    group_label: String,
    policy: RetryPolicy,
}

/// Runs jobs until dropped; running ones then run again elsewhere. [`stop`](Worker::stop) lets them end first.
#[derive(Debug)]
pub struct Worker {
    stop: watch::Sender<bool>,
    slots: JoinSet<()>,
    arrivals: JoinSet<()>,
}

impl WorkerBuilder {
    pub(crate) fn new(queue: Queue, resource: Resource) -> Self {
        let policy = RetryPolicy {
            patience: PERMIT_WAIT,
            max_attempts: ATTEMPTS,
            first_pause: FIRST_PAUSE,
            most_pause: LONGEST_PAUSE,
            deadline: None,
        };
        let group_label = "group".to_owned();
        WorkerBuilder { queue, resource, classes: Vec::new(), slots: SLOTS, concurrency: 1, group_label, policy }
    }

    /// Adds a class of jobs to run. Without any, the worker runs the jobs that have no class.
    pub fn class(mut self, class: impl Into<String>) -> Self {
        self.classes.push(class.into());
        self
    }

    /// Sets how many groups of each class may have jobs that run or await permits at once: at least one, 16 by default.
    /// Each class has its own slots, so urgent jobs do not wait for others.
    pub fn slots(self, slots: usize) -> Self {
        WorkerBuilder { slots: slots.max(1), ..self }
    }

    /// Sets how many jobs of one group may run at the same time: from 1, the default, to 64.
    ///
    /// With 1, jobs of a group keep their order. With more, slow calls can use all that the group's limit allows:
    /// the first jobs run side by side, and each keeps its place while it waits for a permit or another attempt.
    pub fn concurrency(self, jobs: usize) -> Self {
        WorkerBuilder { concurrency: jobs.clamp(1, MAX_CONCURRENCY), ..self }
    }

    /// Sets the label that has the job's group as its value, for a limit with that key; `group` by default.
    pub fn group_label(self, label: impl Into<String>) -> Self {
        WorkerBuilder { group_label: label.into(), ..self }
    }

    /// Sets how long a job first waits in its slot, 0.5 s by default. One due later is put back until shortly before.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.policy.patience = patience;
        self
    }

    /// Sets the number of attempts after which a job goes to the dead letters: at least one, 5 by default.
    /// Attempts that their worker did not survive count; attempts that the upstream answered with 429 do not.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = attempts.max(1);
        self
    }

    /// Limits the time of one execution; unlimited by default. After that the handler's future is dropped, its
    /// call counts as made, and the attempt has failed.
    pub fn deadline(mut self, time: Duration) -> Self {
        self.policy.deadline = Some(time);
        self
    }

    /// Sets how long a job waits after its first failed attempt, and at most; one second and five minutes by
    /// default. The time doubles with each attempt. A handler may [set](Failure::retry_after) another.
    pub fn backoff(mut self, first: Duration, most: Duration) -> Self {
        (self.policy.first_pause, self.policy.most_pause) = (first, most);
        self
    }

    /// Begins to run jobs. The permit of a job is settled with the handler's result. After a status of 429 the job
    /// waits for another permit. Any other status ends it. After a [`Failure`] or a panic it is tried again.
    ///
    /// # Errors
    /// If a class is not a name, the queue lacks it, or JetStream refuses.
    pub async fn start<H, Fut, R>(self, handler: H) -> Result<Worker, QueueError>
    where
        H: Fn(Attempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
        R: Reply,
    {
        let classes = self.classes.iter().map(|class| class_name(class)).collect::<Result<Vec<Name>, QueueError>>()?;
        let classes = if classes.is_empty() { vec![None] } else { classes.into_iter().map(Some).collect() };
        let store = self.queue.store().clone();
        let (connection, layout) = (&store.connection, &store.layout);
        let arriving = existing_consumer(connection, &store.jobs, layout.arrivals()).await?;
        let mut consumers = Vec::new();
        for class in &classes {
            // How long a lease lasts was decided when the queue was made.
            let lane_leases = layout.lane_leases(class.as_ref(), Duration::ZERO);
            consumers.push(existing_consumer(connection, &store.lanes, lane_leases).await?);
        }
        let handler: Handler = Box::new(move |attempt| {
            let run = handler(attempt);
            Box::pin(async move { run.await.map(|reply| reply.outcome()) })
        });
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            store: store.clone(),
            resource: self.resource,
            group_label: self.group_label,
            policy: self.policy,
            concurrency: self.concurrency,
            handler,
            stop: stopped,
        });
        let mut slots = JoinSet::new();
        for consumer in consumers {
            for _ in 0..self.slots {
                slots.spawn(slot(shared.clone(), consumer.clone()));
            }
        }
        let mut arrivals = JoinSet::new();
        arrivals.spawn(arrivals::handle_arrivals(store, arriving));
        Ok(Worker { stop, slots, arrivals })
    }
}

impl Worker {
    /// Takes no more jobs, lets running jobs end, and puts the rest back. Waits while NATS is away, so that no
    /// finished job runs again.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.slots.join_next().await.is_some() {}
        self.arrivals.shutdown().await;
    }
}

/// Receives lane leases, one at a time, and works on their lanes.
async fn slot(shared: Arc<Shared>, consumer: PullConsumer) {
    let (connection, mut stop) = (&shared.store.connection, shared.stop.clone());
    loop {
        let taken = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            taken = pull::next(connection, &consumer, 1) => taken,
        };
        for message in taken {
            receive(&shared, &consumer, message).await;
        }
    }
}

/// Handles a lane lease. The next holder repairs what fails.
async fn receive(shared: &Shared, consumer: &PullConsumer, message: Message) {
    let (store, connection) = (&shared.store, &shared.store.connection);
    let Some(lane) = store.layout.subjects.lane(LaneMessage::LaneLease, &message.subject) else { return };
    let Some(reply) = message.reply.as_ref().map(ToString::to_string) else { return };
    let Ok(lane_lease) = serde_json::from_slice::<LaneLease>(&message.payload) else {
        tracing::error!(subject = %message.subject, "a lane lease of another version; it is left to workers that know it");
        return;
    };
    let message = jetstream::Message { message, context: connection.jetstream.clone() };
    let Ok(info) = message.info() else { return };
    let (sequence, lease) = (info.stream_sequence, consumer.cached_info().config.ack_wait);
    match lane_lease.receipt(info.delivered) {
        Receipt::Sleep(time) => {
            connection.acknowledge(&reply, AckKind::Nak(Some(time))).await;
        }
        Receipt::NextLookup => match store.next_job(&lane, 1).await {
            Some(_) => drop(store.put_lane_lease(&lane, LaneLease::Go, sequence).await),
            None => store.forget(sequence).await,
        },
        Receipt::Work(known) => {
            let Some(hold) = HeldLease::take(connection.clone(), reply, lease).await else { return };
            run_lane(shared, lane, sequence, hold, known).await.ok();
        }
    }
}
