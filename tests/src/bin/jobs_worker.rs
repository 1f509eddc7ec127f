//! A worker that runs jobs, to be killed: `jobs-worker NATS QUEUE UPSTREAM`. `PATIENCE_MS` is how
//! long it waits for a permit before it puts a job back.

use rampmeter_jobs::Queue;
use rampmeter_tests::guilds;
use rampmeter_worker_sdk::Client;
use rampmeter_worker_sdk::client::ConnectOptions;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [nats, queue, upstream] = arguments.as_slice() else { anyhow::bail!("NATS QUEUE UPSTREAM") };
    let options = ConnectOptions::new().name("jobs-worker");
    let queue = Queue::builder().options(options).open(nats, queue).await?;
    let discord = Client::connect(nats).await?.resource("discord")?;
    let mut worker = guilds::worker(&queue, discord).backoff(Duration::from_millis(100), guilds::LEASE);
    if let Ok(patience) = std::env::var("PATIENCE_MS") {
        worker = worker.patience(Duration::from_millis(patience.parse()?));
    }
    let _running = worker.start(guilds::handler(upstream)).await?;
    std::future::pending().await
}
