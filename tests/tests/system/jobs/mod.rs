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

/// The jobs that ran, in order, one a line.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Notes an attempt at a job: its payload, and `#` with the number of the attempt after the first.
    fn note(&self, attempt: &Attempt) -> String {
        let again = if attempt.number > 1 { format!("#{}", attempt.number) } else { String::new() };
        let line = format!("{}{again}", String::from_utf8_lossy(&attempt.payload));
        self.0.lock().unwrap().push(line.clone());
        line
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    async fn reach(&self, count: usize) -> Vec<String> {
        until("jobs have begun", async || (self.lines().len() >= count).then_some(())).await;
        self.lines()
    }
}
