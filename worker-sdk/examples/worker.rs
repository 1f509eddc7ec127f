//! A worker: each call waits for its permit, and the scheduler hears how it went.
//!
//! ```sh
//! cargo run -p rampmeter-worker-sdk --features reqwest --example worker
//! ```
//!
//! `RAMPMETER_NATS` has the server's URL, `API_URL` that of the calls, and `CALLS` their number.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use rampmeter_worker_sdk::error::RunError;
use rampmeter_worker_sdk::{Client, Cost};
use std::error::Error;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let setting = |name, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let nats = setting("RAMPMETER_NATS", "nats://127.0.0.1:4222");
    let api = setting("API_URL", "http://127.0.0.1:9490/process?processing-units=2");
    work(&nats, &api, setting("CALLS", "20").parse()?, Duration::from_secs(60)).await
}

/// Makes some calls, one after the other.
///
/// # Errors
/// If a call is refused, or there is no NATS server.
pub async fn work(nats: &str, api: &str, calls: u32, longest: Duration) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(nats).await?;
    let hub = client.resource("sentinel-hub")?;
    let http = reqwest::Client::builder().timeout(longest).build()?;
    for _ in 0..calls {
        let cost = Cost::requests(1).and("processing-units", 2);
        match hub.run(cost, || http.get(api).send()).await {
            Ok(answer) => println!("{}: {} bytes", answer.status(), answer.bytes().await?.len()),
            Err(RunError::Call(error)) => println!("no answer: {error}"),
            Err(RunError::Permit(refusal)) => return Err(refusal.into()),
        }
    }
    client.close().await;
    Ok(())
}
