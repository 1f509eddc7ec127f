//! Options of a queue.

use crate::connection::Connection;
use crate::lane::Subjects;
use crate::retry::retry_for_a_while;
use crate::store::Store;
use crate::{Queue, QueueError};
use async_nats::ConnectOptions;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::{Context, ErrorCode, stream};
use rampmeter_protocol::name::Name;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(10);
/// The shortest lease. It is renewed three times, and a busy machine is late.
const LEAST_LEASE: Duration = Duration::from_secs(1);
/// How long the server remembers ids of jobs by default.
const REMEMBERED: Duration = Duration::from_secs(600);
/// How long the server remembers ids of lane messages. Repetitions of a message end sooner.
const REMEMBERED_OF_LANES: Duration = Duration::from_secs(120);

/// Options of a [`Queue`].
///
/// The first call that opens a queue creates it with its options.
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
    /// Credentials, TLS and everything else that NATS knows. The queue sets the ping interval, the
    /// delay between reconnects and the event callback itself.
    pub fn options(self, options: ConnectOptions) -> Self {
        QueueBuilder { options, ..self }
    }

    /// The first token of subjects and streams, if it is not `rampmeter`.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        QueueBuilder { prefix: prefix.into(), ..self }
    }

    /// How many servers keep a copy of a new queue; 1 by default.
    pub fn replicas(self, replicas: usize) -> Self {
        QueueBuilder { replicas, ..self }
    }

    /// How long after a worker's death another worker gets its jobs: at least a second; ten seconds
    /// by default. Jobs may take longer, because a live worker renews the lease.
    pub fn lease(self, lease: Duration) -> Self {
        QueueBuilder { lease: lease.max(LEAST_LEASE), ..self }
    }

    /// How long a new queue remembers a job's id; ten minutes by default. Servers keep the ids in
    /// memory.
    pub fn remember_ids(self, time: Duration) -> Self {
        QueueBuilder { remember_ids: time, ..self }
    }

    /// Opens the queue `name`, and creates it if it does not exist.
    ///
    /// # Errors
    /// If a name is invalid, if no server answers at `url`, or if the server or JetStream refuses.
    pub async fn open(self, url: impl AsRef<str>, name: &str) -> Result<Queue, QueueError> {
        self.reach(url.as_ref(), name, async |jetstream: &Context, config| {
            let made = retry_for_a_while(|| jetstream.get_or_create_stream(&config)).await;
            made.map_err(|error| QueueError::store("making a stream", error))
        })
        .await
    }

    /// Opens the queue `name` only if it exists, for example to inspect it.
    ///
    /// # Errors
    /// [`QueueErrorKind::Missing`](crate::QueueErrorKind::Missing) if it does not exist; otherwise
    /// as [`QueueBuilder::open`].
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

    /// Opens a queue with the streams that `provide` returns.
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

    /// The stream of jobs and the stream of lanes.
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
