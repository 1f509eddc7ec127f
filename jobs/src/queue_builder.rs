//! Options of a queue.

use crate::lane::class_name;
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::layout::{Layout, QueueOptions};
use crate::store::opening::{existing_stream, made_stream, make_consumer};
use crate::{Queue, QueueError};
use async_nats::ConnectOptions;
use async_nats::jetstream::stream::Stream;
use rampmeter_protocol::name::Name;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(10);
/// The shortest lease. It is renewed three times, and a busy machine may be late.
const MIN_LEASE: Duration = Duration::from_secs(1);
/// How long servers remember ids of jobs by default.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Default bound on the bytes of jobs: a million small ones. Producers cannot fill a disk.
const DEFAULT_BYTES: u64 = 256 << 20;

/// Options of a [`Queue`].
///
/// An operator [creates](QueueBuilder::create) a queue once, with all these options. Producers and workers
/// [open](QueueBuilder::open) it, and need only the options of the connection: `options` and `prefix`.
#[derive(Debug)]
#[must_use = "nothing happens until `open` or `create`"]
pub struct QueueBuilder {
    options: ConnectOptions,
    prefix: String,
    classes: Vec<String>,
    queue_options: QueueOptions,
}

impl Default for QueueBuilder {
    fn default() -> Self {
        QueueBuilder {
            options: ConnectOptions::new().name("rampmeter-jobs"),
            prefix: "rampmeter".to_owned(),
            classes: Vec::new(),
            queue_options: QueueOptions {
                replicas: 1,
                lease: LEASE,
                remember_ids: REMEMBERED,
                max_bytes: DEFAULT_BYTES,
            },
        }
    }
}

impl QueueBuilder {
    /// Sets credentials, TLS and other options of the connection. The queue itself sets the ping interval, the
    /// delay between reconnects and the event callback.
    pub fn options(self, options: ConnectOptions) -> Self {
        QueueBuilder { options, ..self }
    }

    /// Sets the first token of subjects and streams; `rampmeter` by default.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        QueueBuilder { prefix: prefix.into(), ..self }
    }

    /// Adds a class of jobs to a new queue. Jobs without a class need none.
    pub fn class(mut self, class: impl Into<String>) -> Self {
        self.classes.push(class.into());
        self
    }

    /// Sets how many servers keep a copy of a new queue; 1 by default.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.queue_options.replicas = replicas;
        self
    }

    /// Sets how long after a worker's death another worker gets its jobs, in a new queue: at least a second, ten
    /// seconds by default. Jobs may take longer, because a live worker renews the lease.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.queue_options.lease = lease.max(MIN_LEASE);
        self
    }

    /// Sets how long a new queue remembers a job's id; ten minutes by default. Servers keep the ids in memory.
    pub fn remember_ids(mut self, time: Duration) -> Self {
        self.queue_options.remember_ids = time;
        self
    }

    /// Sets the bound on the bytes of jobs and dead letters in a new queue; 256 MiB by default. Its lanes may
    /// have a quarter of that. A full queue refuses jobs.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.queue_options.max_bytes = bytes;
        self
    }

    /// Opens the queue `name`, which an operator has created.
    ///
    /// # Errors
    /// [`QueueErrorKind::Missing`](crate::QueueErrorKind::Missing) if it does not exist, and
    /// [`QueueErrorKind::Differs`](crate::QueueErrorKind::Differs) if its streams are not a queue's. Also if
    /// a name is invalid, no server answers at `url`, or the server or JetStream refuses.
    pub async fn open(self, url: impl AsRef<str>, name: &str) -> Result<Queue, QueueError> {
        let layout = self.layout(name)?;
        let connection = Connection::connect(self.options, url.as_ref()).await?;
        let jobs = existing_stream(&connection, name, &layout.jobs(&self.queue_options)).await?;
        let lanes = existing_stream(&connection, name, &layout.lanes(&self.queue_options)).await?;
        Ok(Queue::new(Store { connection, layout, jobs, lanes }))
    }

    /// Creates the queue `name`: its streams, and consumers for jobs without a class and for each class. Existing
    /// parts stay as they are, so that another class can be added later.
    ///
    /// # Errors
    /// [`QueueErrorKind::Differs`](crate::QueueErrorKind::Differs) if its options differ; see [`open`](Self::open).
    pub async fn create(self, url: impl AsRef<str>, name: &str) -> Result<Queue, QueueError> {
        let layout = self.layout(name)?;
        let classes = self.classes.iter().map(|class| class_name(class)).collect::<Result<Vec<Name>, QueueError>>()?;
        let connection = Connection::connect(self.options, url.as_ref()).await?;
        let made = made(&connection, &layout, &self.queue_options, &classes).await;
        let (jobs, lanes) = made.map_err(|error| connection.explained(error))?;
        Ok(Queue::new(Store { connection, layout, jobs, lanes }))
    }

    fn layout(&self, name: &str) -> Result<Layout, QueueError> {
        let named = |what: &str, name: &str| {
            Name::new(name).map_err(|error| QueueError::invalid(format!("{what} {name:?}: {error}")))
        };
        Ok(Layout::new(named("prefix", &self.prefix)?, named("queue", name)?))
    }
}

/// Creates the streams of jobs and of lanes, with their consumers.
async fn made(
    connection: &Connection,
    layout: &Layout,
    options: &QueueOptions,
    classes: &[Name],
) -> Result<(Stream, Stream), QueueError> {
    let jobs = made_stream(connection, &layout.jobs(options)).await?;
    let lanes = made_stream(connection, &layout.lanes(options)).await?;
    make_consumer(&jobs, &layout.arrivals()).await?;
    for class in std::iter::once(None).chain(classes.iter().map(Some)) {
        make_consumer(&lanes, &layout.lane_leases(class, options.lease)).await?;
    }
    Ok((jobs, lanes))
}
