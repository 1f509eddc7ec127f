//! The parts of a queue: streams of jobs and lanes, a consumer of arrivals, and one of lane leases per class.

use crate::lane::{LaneMessage, Subjects, class_token};
use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::{self, DiscardPolicy};
use rampmeter_protocol::name::Name;
use std::time::Duration;

/// How long servers remember ids of lane messages. Repetitions of a message end sooner.
const REMEMBERED_OF_LANES: Duration = Duration::from_secs(120);
const ARRIVALS: &str = "arrivals";
/// How long a worker has for an arrival before another worker gets it.
const ARRIVAL_LEASE: Duration = Duration::from_secs(10);
/// The part of a queue's bytes for lanes. Each has two messages of 200 bytes, or some kilobytes if concurrent.
const LANES_PART: u64 = 4;

/// The setting of streams that accept batches.
pub(crate) const BATCHES: &str = "allow_atomic";
/// The settings of a stream that an operator may choose. A queue of an earlier build accepts no batches.
pub(crate) const FREE_OF_STREAMS: &[&str] = &[
    BATCHES,
    "description",
    "discard",
    "duplicate_window",
    "max_bytes",
    "max_msg_size",
    "num_replicas",
    "placement",
    "storage",
    "compression",
];
/// The settings of a consumer that an operator may choose.
pub(crate) const FREE_OF_CONSUMERS: &[&str] = &["ack_wait", "description", "max_waiting", "num_replicas"];
/// The settings of a consumer that the server fills in.
pub(crate) const FILLED_IN: &[&str] = &["max_waiting"];

#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueOptions {
    pub(crate) replicas: usize,
    pub(crate) lease: Duration,
    pub(crate) remember_ids: Duration,
    pub(crate) max_bytes: u64,
}

/// The names of a queue's streams, and the subjects in them.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    prefix: Name,
    queue: Name,
    pub(crate) subjects: Subjects,
}

impl Layout {
    pub(crate) fn new(prefix: Name, queue: Name) -> Self {
        let subjects = Subjects::new(&prefix, &queue);
        Layout { prefix, queue, subjects }
    }

    pub(crate) fn queue(&self) -> &str {
        &self.queue
    }

    /// Returns the stream of jobs and dead letters. A full stream refuses jobs, and loses none.
    pub(crate) fn jobs(&self, options: &QueueOptions) -> stream::Config {
        stream::Config {
            name: format!("{}-jobs-{}", self.prefix, self.queue),
            subjects: vec![self.subjects.all_jobs()],
            duplicate_window: options.remember_ids,
            allow_atomic_publish: true,
            ..plain(options, options.max_bytes)
        }
    }

    pub(crate) fn lanes(&self, options: &QueueOptions) -> stream::Config {
        stream::Config {
            name: format!("{}-lanes-{}", self.prefix, self.queue),
            subjects: vec![self.subjects.all_lanes()],
            max_messages_per_subject: 1,
            duplicate_window: REMEMBERED_OF_LANES,
            ..plain(options, options.max_bytes / LANES_PART)
        }
    }

    /// Returns the consumer of arriving jobs, in the stream of jobs.
    pub(crate) fn arrivals(&self) -> pull::Config {
        durable(ARRIVALS.to_owned(), self.subjects.all(LaneMessage::Job), ARRIVAL_LEASE)
    }

    pub(crate) fn lane_leases_name(&self, class: Option<&Name>) -> String {
        format!("batons-{}", class_token(class))
    }

    pub(crate) fn lane_leases(&self, class: Option<&Name>, lease: Duration) -> pull::Config {
        durable(self.lane_leases_name(class), self.subjects.of_class(LaneMessage::LaneLease, class), lease)
    }
}

fn plain(options: &QueueOptions, max_bytes: u64) -> stream::Config {
    stream::Config {
        num_replicas: options.replicas,
        max_bytes: i64::try_from(max_bytes).unwrap_or(i64::MAX),
        discard: DiscardPolicy::New,
        max_messages: -1,
        max_messages_per_subject: -1,
        ..stream::Config::default()
    }
}

fn durable(name: String, filter: String, lease: Duration) -> pull::Config {
    pull::Config {
        name: Some(name.clone()),
        durable_name: Some(name),
        filter_subject: filter,
        ack_policy: AckPolicy::Explicit,
        ack_wait: lease,
        // A lane that waits for its time counts as pending, and any number of lanes may wait.
        max_ack_pending: -1,
        ..pull::Config::default()
    }
}
