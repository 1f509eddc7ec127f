//! A worker: asks for a permit, calls, reports how it went, and repeats.
//!
//! `cargo run --example worker -- sentinel-hub`, with the server's URL in `RAMPMETER_NATS`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use rampmeter_worker_sdk::{Client, Outcome};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("RAMPMETER_NATS").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let resource = std::env::args().nth(1).unwrap_or_else(|| "sentinel-hub".to_owned());
    let client = Client::builder().name("worker").wait_for_server().connect(url).await?;
    let resource = client.resource(&resource)?;
    loop {
        let (_, answer) = resource.run(1, call_the_api).await?;
        println!("{answer}; so far {:?}", client.stats());
    }
}

/// A real worker calls the API here with its HTTP client.
async fn call_the_api() -> Result<(Outcome, &'static str), std::io::Error> {
    Ok((Outcome::status(200), "a tile"))
}
