//! A queue of jobs.

use crate::batch::{self, PartlyPublished};
use crate::job::Written;
use crate::known_classes::KnownClasses;
use crate::status::{DeadLetter, GroupStatus, Position};
use crate::store::Store;
use crate::{Job, Published, QueueBuilder, QueueError, WorkerBuilder, status};
use rampmeter_worker_sdk::Resource;

/// A queue of jobs: for producers, for [workers](Queue::worker), and for inspection. Cheap to
/// clone.
///
/// It has its own connection to NATS. Jobs are messages on
/// `rampmeter.jobs.<queue>.job.<class>.<group>`, with `-` as the class of jobs without one. Any
/// other client of NATS may publish there too. Its message is a job that costs one request, unless
/// a header says otherwise.
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
    classes: KnownClasses,
}

impl Queue {
    pub(crate) fn new(store: Store) -> Self {
        Queue { store, classes: KnownClasses::default() }
    }

    /// Opens the queue `name` with no options. An operator has created it, with `rampmeter jobs
    /// init` or [`QueueBuilder::create`]. See [`Queue::builder`] for more.
    ///
    /// # Errors
    /// The errors of [`QueueBuilder::open`].
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
    /// If the job is invalid or too large, or if the queue lacks its class. If JetStream does not
    /// take it for 15 s.
    pub async fn publish(&self, job: Job) -> Result<Published, QueueError> {
        let published = self.publish_all([job]).await.map_err(|none| none.error)?;
        Ok(published[0])
    }

    /// Publishes many jobs with few round trips, in their order: up to a thousand go into the
    /// stream together or not at all.
    ///
    /// Jobs whose ids are known are duplicates, as in [`publish`](Queue::publish). If one job can't
    /// be published, no later one is. A producer that died publishes all of them again, under ids
    /// of its own choice.
    ///
    /// ```no_run
    /// # async fn example(queue: rampmeter_jobs::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use rampmeter_jobs::Job;
    /// let jobs = (0..50_000).map(|user| Job::new(format!("guild-{}", user % 50), format!("user {user}")));
    /// let published = queue.publish_all(jobs).await?;
    /// assert_eq!(published.len(), 50_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`PartlyPublished`], with the jobs that are in the stream and the reason why the next one is
    /// not. If one of the jobs is invalid, none is published.
    pub async fn publish_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<Published>, PartlyPublished> {
        let written: Result<Vec<Written>, QueueError> = jobs.into_iter().map(Job::written).collect();
        let none = |error| PartlyPublished { published: Vec::new(), error };
        let written = written.map_err(none)?;
        for job in &written {
            self.classes.check(&self.store, job.lane.class.as_ref()).await.map_err(none)?;
        }
        let published = batch::publish(&self.store, &written).await;
        let all = match &published {
            Ok(published) => published,
            Err(partly) => &partly.published,
        };
        match all.iter().filter(|published| published.duplicate).count() {
            0 => {}
            repeated => self.store.count_repeated(repeated as u64).await,
        }
        published
    }

    /// Where a job is in its group: how many are before it, and when it is likely to begin. `None`
    /// if it is not in the queue any more.
    ///
    /// The call reads each job before this one, at a tenth of a millisecond a job.
    ///
    /// # Errors
    /// None at present. If JetStream does not answer, this tries again.
    pub async fn position(&self, sequence: u64) -> Result<Option<Position>, QueueError> {
        Ok(status::position(&self.store, sequence).await)
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
