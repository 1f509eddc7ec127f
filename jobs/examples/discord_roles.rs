//! Delayed jobs that give roles to the members of fifty Discord servers. Each server allows ten changes in ten seconds.
//!
//! The example needs a scheduler of a resource `discord` with a limit of 10 in 10 s and `key =
//! ["guild"]`. The URL of its NATS is in `RAMPMETER_NATS`:
//!
//! `cargo run -p rampmeter-jobs --example discord_roles -- [jobs for each server] [period in seconds]`
//!
//! Upstreams on 127.0.0.1 imitate the servers, and answer 429 to a call that exceeds the limit.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use rampmeter_jobs::{Attempt, Failure, Job, Queue};
use rampmeter_upstream::{Config, Upstream};
use rampmeter_worker_sdk::{Client, Outcome};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SERVERS: u32 = 50;

type Servers = BTreeMap<String, Upstream>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("RAMPMETER_NATS").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let jobs = std::env::args().nth(1).map_or(Ok(20), |jobs| jobs.parse::<u32>())?;
    let period = std::env::args().nth(2).map_or(Ok(10), |period| period.parse::<u32>())?;
    let servers = Arc::new(start_servers(period).await?);

    let queue = Queue::builder().create(&url, "roles").await?;
    for user in 0..jobs {
        for guild in servers.keys() {
            queue.publish(Job::new(guild, format!("user {user}")).id(format!("{guild}-{user}"))).await?;
        }
    }
    println!("{} jobs are published", jobs * SERVERS);

    let discord = Client::connect(&url).await?.resource("discord")?;
    let (http, called) = (reqwest::Client::builder().no_proxy().build()?, servers.clone());
    let handler = move |attempt: Attempt| add_role(http.clone(), called.clone(), attempt);
    let worker = queue.worker(discord).group_label("guild").slots(SERVERS as usize).start(handler).await?;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let delayed: usize = queue.status().await?.iter().map(|group| group.delayed + group.running).sum();
        let sum = |count: fn(&Upstream) -> u64| servers.values().map(count).sum::<u64>();
        let (done, throttled) =
            (sum(|server| server.stats().total.ok), sum(|server| server.stats().total.rate_limited));
        println!("{done} done, {delayed} delayed, {throttled} × 429");
        if delayed == 0 {
            worker.stop().await;
            return Ok(());
        }
    }
}

async fn start_servers(period: u32) -> Result<Servers, Box<dyn std::error::Error>> {
    let mut servers = Servers::new();
    for guild in 0..SERVERS {
        let policy = format!("requests=10/{period}s").parse()?;
        servers.insert(format!("guild-{guild}"), Upstream::start(Config::new(vec![policy])).await?);
    }
    Ok(servers)
}

/// A real worker calls Discord here. A repeated job has the same id, so that a finished change is not made twice.
async fn add_role(http: reqwest::Client, servers: Arc<Servers>, attempt: Attempt) -> Result<Outcome, Failure> {
    let server = servers.get(&attempt.group).ok_or_else(|| Failure::for_good("there is no such server"))?;
    let url = format!("{}/process", server.url());
    let answer = http.get(url).header("x-idempotency-key", attempt.id).send().await?;
    Ok(Outcome::status(answer.status().as_u16()))
}
