//! Publishes many jobs at once, and measures how many a second. It makes the queue `many`, which
//! `rampmeter jobs init many` would do otherwise.
//!
//! `cargo run --release -p rampmeter-jobs --example many_jobs -- [jobs] [groups]`
//!
//! The URL of NATS is in `RAMPMETER_NATS`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use rampmeter_jobs::{Job, Queue};
use rampmeter_protocol::clock::Clock;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("RAMPMETER_NATS").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let jobs = std::env::args().nth(1).map_or(Ok(100_000), |jobs| jobs.parse::<u32>())?;
    let groups = std::env::args().nth(2).map_or(Ok(50), |groups| groups.parse::<u32>())?;
    let queue = Queue::builder().create(&url, "many").await?;
    let all = (0..jobs).map(|job| Job::new(format!("guild-{}", job % groups), format!("user {job}")));

    let clock = Clock::start();
    let published = queue.publish_all(all).await?.len();
    let seconds = clock.now().since(Clock::START).secs();
    println!("{published} jobs in {seconds:.2} s: {:.0} a second", f64::from(jobs) / seconds);
    Ok(())
}
