//! How to open a queue.

use crate::connection::Connection;
use crate::lane::Subjects;
use crate::persistence::insist;
use crate::store::Store;
use crate::{Queue, QueueError};
use async_nats::ConnectOptions;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::{Context, ErrorCode, stream};
use rampmeter_protocol::name::Name;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(10);
/// The shortest lease: it is renewed three times, and a busy machine is late.
const LEAST_LEASE: Duration = Duration::from_secs(1);
/// For how long the server remembers ids of jobs, unless told.
const REMEMBERED: Duration = Duration::from_secs(600);
/// The same for what is written of lanes: longer than anything is said again.
const REMEMBERED_OF_LANES: Duration = Duration::from_secs(120);

/// Options of a [`Queue`].
///
/// What a queue is made with is set by whoever opens it first.
#[derive(Debug)]
#[must_use = "nothing happens until `open`"]
pub struct QueueBuilder {
    options: ConnectOptions,
    prefix: String,
    replicas: usize,
    lease: Duration,
    remember_ids: Duration,
}

impl Default for QueueBuilder {
    fn default() -> Self {
        QueueBuilder {
            options: ConnectOptions::new().name("rampmeter-jobs"),
            prefix: "rampmeter".to_owned(),
            replicas: 1,
            lease: LEASE,
            remember_ids: REMEMBERED,
        }
    }
}

impl QueueBuilder {
    /// Credentials, TLS and everything else that NATS knows. The ping interval, the delay between reconnects and the event callback are the queue's own.
    pub fn options(self, options: ConnectOptions) -> Self {
        QueueBuilder { options, ..self }
    }

    /// Subjects and streams that begin with something else than `rampmeter`.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        QueueBuilder { prefix: prefix.into(), ..self }
    }

    /// How many servers keep a copy of the queue that is made; 1 unless told.
    pub fn replicas(self, replicas: usize) -> Self {
        QueueBuilder { replicas, ..self }
    }

    /// How long after a worker's death its jobs are handed to another, at least a second; ten unless told. Jobs may take any longer: a worker that lives
    /// renews it.
    pub fn lease(self, lease: Duration) -> Self {
        QueueBuilder { lease: lease.max(LEAST_LEASE), ..self }
    }

    /// For how long a job's id is known to the queue that is made; ten minutes unless told. Servers remember them in memory.
    pub fn remember_ids(self, time: Duration) -> Self {
        QueueBuilder { remember_ids: time, ..self }
    }

    /// Opens the queue `name`, and makes it if there is none.
    ///
    /// # Errors
    /// If a name is none, if there is no server at `url` or it refuses, or if JetStream does.
    pub async fn open(self, url: impl AsRef<str>, name: &str) -> Result<Queue, QueueError> {
        self.reach(url.as_ref(), name, async |jetstream: &Context, config| {
            let made = insist(|| jetstream.get_or_create_stream(&config)).await;
            made.map_err(|error| QueueError::store("making a stream", error))
        })
        .await
    }

    /// Opens the queue `name` if there is one: to look at it, for instance.
    ///
    /// # Errors
    /// [`QueueErrorKind::Missing`](crate::QueueErrorKind::Missing) if there is none; otherwise as [`QueueBuilder::open`].
    pub async fn existing(self, url: impl AsRef<str>, name: &str) -> Result<Queue, QueueError> {
        self.reach(url.as_ref(), name, async |jetstream: &Context, config| {
            let found = jetstream.get_stream(&config.name).await;
            found.map_err(|error| match error.kind() {
                GetStreamErrorKind::JetStream(refusal) if refusal.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                    QueueError::missing(name)
                }
                GetStreamErrorKind::JetStream(_)
                | GetStreamErrorKind::EmptyName
                | GetStreamErrorKind::Request
                | GetStreamErrorKind::InvalidStreamName => QueueError::store("looking for a stream", error),
            })
        })
        .await
    }

    /// A queue whose streams `provide` has.
    async fn reach(
        self,
        url: &str,
        name: &str,
        provide: impl AsyncFn(&Context, stream::Config) -> Result<stream::Stream, QueueError>,
    ) -> Result<Queue, QueueError> {
        let named = |what: &str, name: &str| {
            Name::new(name).map_err(|error| QueueError::invalid(format!("{what} {name:?}: {error}")))
        };
        let (prefix, name) = (named("prefix", &self.prefix)?, named("queue", name)?);
        let subjects = Subjects::new(&prefix, &name);
        let (jobs, lanes) = self.streams(&prefix, &name, &subjects);
        let connection = Connection::connect(self.options, url).await?;
        let (jobs, lanes) = (provide(&connection.jetstream, jobs).await?, provide(&connection.jetstream, lanes).await?);
        Ok(Queue::new(name, Store { connection, subjects, jobs, lanes }, self.lease))
    }

    /// What keeps the jobs, and what keeps their lanes.
    fn streams(&self, prefix: &Name, name: &Name, subjects: &Subjects) -> (stream::Config, stream::Config) {
        let plain = stream::Config { num_replicas: self.replicas, ..stream::Config::default() };
        let jobs = stream::Config {
            name: format!("{prefix}-jobs-{name}"),
            subjects: vec![subjects.all_jobs()],
            duplicate_window: self.remember_ids,
            ..plain.clone()
        };
        let lanes = stream::Config {
            name: format!("{prefix}-lanes-{name}"),
            subjects: vec![subjects.all_lanes()],
            max_messages_per_subject: 1,
            duplicate_window: REMEMBERED_OF_LANES,
            ..plain
        };
        (jobs, lanes)
    }
}
