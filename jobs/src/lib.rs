//! Delayed jobs on JetStream.
//!
//! A producer publishes [`Job`]s, and workers run each job when its permit is due. Jobs of one *group*, such
//! as a Discord server, run in the order in which they were published, and one at a time unless workers
//! [allow more](WorkerBuilder::concurrency), for any number of workers. Jobs of different groups run side by
//! side. A job whose permit is far away occupies no worker: it is put back until then.
//!
//! ```no_run
//! use rampmeter_jobs::{Attempt, Failure, Job, Queue};
//! use rampmeter_worker_sdk::{Client, Outcome};
//! # async fn add_role(attempt: &Attempt) -> Result<u16, std::io::Error> { Ok(204) }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = Queue::open("nats://127.0.0.1:4222", "roles").await?;
//! queue.publish(Job::new("guild-17", "user 4711").id("grant-4711").label("route", "/guilds/roles")).await?;
//!
//! let discord = Client::connect("nats://127.0.0.1:4222").await?.resource("discord")?;
//! let worker = queue.worker(discord).group_label("guild").start(async |attempt: Attempt| {
//!     let status = add_role(&attempt).await?; // an error is a failed attempt
//!     Ok::<_, Failure>(Outcome::status(status))
//! });
//! # let worker = worker.await?;
//! worker.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! An operator creates the queue once, with `rampmeter jobs init roles` or [`QueueBuilder::create`]. Producers
//! and workers need no right to create streams and consumers, and refuse those that are not a queue's.
//!
//! # What is promised
//!
//! * **At least once.** A job leaves the stream only after a successful run or as a dead letter. If a worker,
//!   a scheduler or a nats-server dies, the job runs again or goes on, so a run may happen twice.
//!   [`Attempt::id`] is then the same, so that the upstream can recognise it. A job that is published twice
//!   under one [`id`](Job::id) is one job, within the stream's window for duplicates.
//! * **Order.** In one group and class, a job begins after the previous one has ended: done, or among the dead
//!   letters. With a [concurrency](WorkerBuilder::concurrency) above 1, that many jobs run side by side.
//! * **No 429 of our own.** Each run has its own permit, requested when the job's turn has come. A job that is
//!   put back reserves nothing, so a deleted job leaves nothing behind.
//! * **No counters.** [`Queue::status`] reads from the streams which jobs are delayed, running or dead: nothing drifts.
//! * **No shared clock.** Workers send durations to servers, never instants.
//!
//! A worker that is stopped for longer than the [lease](QueueBuilder::lease) during a job may wake up beside
//! another that runs the same job. It begins no other job. No more can be promised for a call in flight.
//!
//! # How it works
//!
//! A queue is two streams: one of jobs and dead letters, and one of lanes, the jobs of one class and group.
//!
//! * A lane with jobs has a lane lease, one message that a consumer delivers to one worker at a time, and again
//!   if that worker dies. Its holder runs the lane's first job, or as many of the first as may run at once:
//!   permit, run, delete, next. Order therefore needs neither a consumer for each group nor an elected worker.
//! * A publisher sends one message. A second consumer delivers each arrival to a worker, which acknowledges it
//!   once its lane has a lane lease.
//! * A lane lease goes away in two steps. A holder that finds the lane empty writes a closing version. The next
//!   holder looks again, and deletes the lease if nothing has come. An arrival revives a closing lease. So a
//!   lane with a job always has a lane lease or an unacknowledged arrival.
//! * Each new version of a lane lease replaces the last one by compare-and-set. So does the note of an attempt,
//!   which is written right before the call, so that a replaced worker can begin nothing. It also checks its
//!   lease on its own clock. It ends what it has begun.
//! * A permit is requested in mode `wait` with a short bound. If the scheduler answers that it is due later, the lane
//!   lease goes back with that delay (NAK). The age is kept, so the job keeps its place in the scheduler's queue. The
//!   bound doubles each time, so that a job eventually waits long enough even if other requests were always faster.
//! * If fewer jobs of a lane wait than may run at once, its lease comes back every two seconds for jobs that
//!   arrived meanwhile. No arrival takes a lane lease from a holder that may be at work.
//! * Many jobs are published as atomic batches. Where one is refused, its jobs follow one by one.
//! * Counts are of the streams' subjects. A job runs if it exists and had an attempt since its lease was delivered.
//!
//! # Design decisions
//!
//! A delay is a NAK, not a scheduled message (NATS 2.12). A schedule is set to a time of day, so that workers'
//! clocks would matter, and takes a message to cancel. The consumer keeps a delay over restarts. Pending
//! acknowledgements are unbounded, one for each lane.
//!
//! The stream of jobs has limits, not the `WorkQueue` policy, under which acknowledging an arrival deletes the job.

mod batch;
mod error;
mod job;
mod known_classes;
mod lane;
mod queue;
mod queue_builder;
mod status;
mod store;
mod worker;

pub use batch::PartlyPublished;
pub use error::{QueueError, QueueErrorKind};
pub use job::{Job, Published};
pub use queue::Queue;
pub use queue_builder::QueueBuilder;
pub use status::{DeadLetter, GroupStatus, Position};
pub use worker::attempt::Attempt;
pub use worker::failure::Failure;
pub use worker::{Worker, WorkerBuilder};
