//! A queue of jobs.

use crate::job::Written;
use crate::lane::LaneMessage;
use crate::retry::retry_for_a_while;
use crate::status::{DeadLetter, GroupStatus};
use crate::store::{Store, unique};
use crate::{Job, Published, QueueBuilder, QueueError, WorkerBuilder, status};
use async_nats::jetstream::message::PublishMessage;
use rampmeter_worker_sdk::Resource;

/// A queue of jobs: for producers, for [workers](Queue::worker), and for inspection. Cheap to
/// clone.
///
/// It has its own connection to NATS. Jobs are messages on
/// `rampmeter.jobs.<queue>.job.<class>.<group>`, with `-` as the class of jobs without one. Any
/// other client of NATS may publish there too. Its message is a job that costs one request.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use rampmeter_jobs::{Job, Queue};
/// let queue = Queue::open("nats://127.0.0.1:4222", "roles").await?;
/// let job = queue.publish(Job::new("guild-17", "user 4711")).await?;
/// assert!(queue.delete(job.sequence).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    store: Store,
}

impl Queue {
    pub(crate) fn new(store: Store) -> Self {
        Queue { store }
    }

    /// Opens the queue `name` with no options. An operator has created it, with `rampmeter jobs
    /// init` or [`QueueBuilder::create`]. See [`Queue::builder`] for more.
    ///
    /// # Errors
    /// As [`QueueBuilder::open`].
    pub async fn open(url: impl AsRef<str>, name: &str) -> Result<Queue, QueueError> {
        Queue::builder().open(url, name).await
    }

    /// A queue with options.
    pub fn builder() -> QueueBuilder {
        QueueBuilder::default()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.store.layout.queue()
    }

    /// Publishes a job. The job is in the stream when this returns.
    ///
    /// # Errors
    /// If the job is invalid or too large, or if JetStream does not take it for a quarter of a
    /// minute.
    pub async fn publish(&self, job: Job) -> Result<Published, QueueError> {
        let Written { lane, id, headers, payload } = job.written()?;
        let (subject, id) = (self.store.layout.subjects.of(LaneMessage::Job, &lane), id.unwrap_or_else(unique));
        let message = || PublishMessage::build().payload(payload.clone()).headers(headers.clone()).message_id(&id);
        let published = retry_for_a_while(|| self.store.publish(&subject, message())).await;
        let ack = published.map_err(|error| QueueError::store("publishing a job", error))?;
        if ack.duplicate {
            self.store.count_repeated().await;
        }
        Ok(Published { sequence: ack.sequence, duplicate: ack.duplicate })
    }

    /// Deletes a job or a dead letter by its place in the stream. Returns whether it was still
    /// there. A running job goes on to its end.
    ///
    /// # Errors
    /// None at present. If JetStream does not answer, this tries again.
    pub async fn delete(&self, sequence: u64) -> Result<bool, QueueError> {
        Ok(self.store.finish(sequence).await)
    }

    /// How many jobs are delayed, running and dead, by class and group. Groups without jobs are
    /// left out.
    ///
    /// The numbers are counted from the present streams, so that they are right after any failure.
    ///
    /// # Errors
    /// If JetStream does not answer.
    pub async fn status(&self) -> Result<Vec<GroupStatus>, QueueError> {
        status::of(&self.store).await
    }

    /// How many jobs were dropped because a job with their id had been published before.
    ///
    /// Publishers count them. The count may be too low if many publish such jobs at once, and does
    /// not include those of other clients of NATS.
    ///
    /// # Errors
    /// If JetStream does not answer.
    pub async fn repeated(&self) -> Result<u64, QueueError> {
        let repeated = self.store.repeated().await;
        repeated.map(|count| count.value).map_err(|error| QueueError::store("reading a count", error))
    }

    /// The oldest dead letters, at most `most`.
    ///
    /// # Errors
    /// If JetStream does not answer.
    pub async fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, QueueError> {
        status::dead_letters(&self.store, most).await
    }

    /// Options of a worker that runs this queue's jobs with permits of `resource`.
    pub fn worker(&self, resource: Resource) -> WorkerBuilder {
        WorkerBuilder::new(self.clone(), resource)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }
}
