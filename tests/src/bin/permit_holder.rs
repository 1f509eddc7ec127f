//! A worker that takes a permit and keeps it, to be killed: `permit-holder NATS RESOURCE`. It prints a
//! line when it has the permit.

#![allow(clippy::print_stdout, reason = "drills wait for this line")]

use rampmeter_worker_sdk::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [nats, resource] = arguments.as_slice() else { anyhow::bail!("NATS RESOURCE") };
    let _permit = Client::connect(nats).await?.resource(resource)?.acquire(1).await?;
    println!("held");
    std::future::pending().await
}
