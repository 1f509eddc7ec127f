//! A queue of jobs.

use crate::batch::{self, PartlyPublished};
use crate::job::Written;
use crate::known_classes::KnownClasses;
use crate::status::{DeadLetter, GroupStatus, Position};
use crate::store::Store;
use crate::{Job, Published, QueueBuilder, QueueError, WorkerBuilder, status};
use rampmeter_worker_sdk::Resource;

/// A queue of jobs: for producers, for [workers](Queue::worker), and for inspection. Cheap to clone.
///
/// It has its own connection to NATS. Jobs are messages on `rampmeter.jobs.<queue>.job.<class>.<group>`, with
/// `-` as the class of jobs without one. Any other NATS client may publish there too; its message is a job
/// that costs one request, unless a header states another cost.
#[derive(Clone, Debug)]
pub struct Queue {
    store: Store,
    classes: KnownClasses,
}

impl Queue {
    pub(crate) fn new(store: Store) -> Self {
        Queue { store, classes: KnownClasses::default() }
    }

    /// Opens the queue `name`, which an operator creates by `rampmeter jobs init` or [`QueueBuilder::create`].
    ///
    /// # Errors
    /// See [`QueueBuilder::open`].
    pub async fn open(url: impl AsRef<str>, name: &str) -> Result<Queue, QueueError> {
        Queue::builder().open(url, name).await
    }

    /// Returns the options of a queue.
    pub fn builder() -> QueueBuilder {
        QueueBuilder::default()
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.store.layout.queue()
    }

    /// Publishes a job, which is in the stream when this returns.
    ///
    /// # Errors
    /// If the job is invalid or too large, the queue lacks its class, or JetStream does not accept it for 15 s.
    pub async fn publish(&self, job: Job) -> Result<Published, QueueError> {
        let published = self.publish_all([job]).await.map_err(|none| none.error)?;
        Ok(published[0])
    }

    /// Publishes many jobs in order, in few round trips. Up to a thousand go into the stream together or not at all.
    ///
    /// Jobs with known ids are duplicates, as in [`publish`](Queue::publish). If one job can't be published, no
    /// later one is. A producer that died can publish all of them again, under ids of its own choice.
    ///
    /// # Errors
    /// [`PartlyPublished`], with the jobs that are in the stream and the reason why the next one is not. If
    /// one of the jobs is invalid, none is published.
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

    /// Returns a job's position in its group, and when it is likely to begin. `None` if it has left the queue.
    ///
    /// Reads each job before this one, which takes a tenth of a millisecond per job.
    ///
    /// # Errors
    /// Currently none. If JetStream does not answer, this tries again.
    pub async fn position(&self, sequence: u64) -> Result<Option<Position>, QueueError> {
        Ok(status::position(&self.store, sequence).await)
    }

    /// Deletes a job or a dead letter by its sequence. Returns whether it existed. A running job runs to its end.
    ///
    /// # Errors
    /// Currently none. If JetStream does not answer, this tries again.
    pub async fn delete(&self, sequence: u64) -> Result<bool, QueueError> {
        Ok(self.store.finish(sequence).await)
    }

    /// Counts the delayed, running and dead jobs by class and group, without empty groups, from the present streams.
    ///
    /// # Errors
    /// If JetStream does not answer.
    pub async fn status(&self) -> Result<Vec<GroupStatus>, QueueError> {
        status::of(&self.store).await
    }

    /// Returns how many jobs were dropped because their id had been published before. Publishers count them: the count
    /// may be too low if many count at once, and excludes other NATS clients.
    ///
    /// # Errors
    /// If JetStream does not answer.
    pub async fn repeated(&self) -> Result<u64, QueueError> {
        let repeated = self.store.repeated().await;
        repeated.map(|count| count.value).map_err(|error| QueueError::store("reading a count", error))
    }

    /// Returns the oldest dead letters, at most `most`.
    ///
    /// # Errors
    /// If JetStream does not answer.
    pub async fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, QueueError> {
        status::dead_letters(&self.store, most).await
    }

    /// Returns the options of a worker that runs this queue's jobs with permits of `resource`.
    pub fn worker(&self, resource: Resource) -> WorkerBuilder {
        WorkerBuilder::new(self.clone(), resource)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }
}
