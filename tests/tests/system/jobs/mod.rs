//! Queues of delayed jobs.

mod batches;
mod commands;
mod concurrency;
mod faults;
mod init;
mod permissions_of_jobs;
mod queue;

use crate::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

/// A queue, and an upstream that allows each guild some calls.
struct Stage {
    nats: Server,
    queue: Queue,
    discord: Resource,
    _scheduler: Running,
}

impl Stage {
    /// A limit for each guild of this many calls in a second, half of it margin.
    async fn start(capacity: u32) -> Self {
        let (nats, running) = scheduler::alone(&discord(capacity, SECOND)).await;
        let queue = guilds::queue(nats.url()).await;
        let discord = Client::connect(nats.url()).await.unwrap().resource("discord").unwrap();
        Stage { nats, queue, discord, _scheduler: running }
    }
}
