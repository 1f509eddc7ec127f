//! A worker that takes a permit and keeps it, to be killed: `permit-holder NATS RESOURCE [MORE]`.
//! It prints a line when it has the permit, and then asks for `MORE` others at once.

#![allow(clippy::print_stdout, reason = "drills wait for this line")]

use futures::future::join_all;
use rampmeter_worker_sdk::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (nats, resource, more) = match arguments.as_slice() {
        [nats, resource] => (nats, resource, 0),
        [nats, resource, more] => (nats, resource, more.parse()?),
        _ => anyhow::bail!("NATS RESOURCE [MORE]"),
    };
    let resource = Client::connect(nats).await?.resource(resource)?;
    let _permit = resource.acquire(1).await?;
    println!("held");
    let _more = join_all((0..more).map(|_| resource.acquire(1).into_future())).await;
    std::future::pending().await
}
