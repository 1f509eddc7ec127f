//! A client that asks without waiting for answers, until its input ends: `noisy-client NATS SUBJECT
//! ASKS`, with the number of requests per millisecond. It prints how often it has asked.

#![allow(clippy::print_stdout, reason = "its result is its output")]

use futures::StreamExt;
use serde_json::{Value, json};
use std::io::Read;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [nats, subject, asks] = arguments.as_slice() else { anyhow::bail!("NATS SUBJECT ASKS") };
    let asks: usize = asks.parse()?;
    let client = async_nats::connect(nats).await?;
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await?;
    tokio::spawn(async move { while answers.next().await.is_some() {} });
    let request = json!({ "mode": "wait", "labels": { "client": "noisy" } });
    let array = bytes::Bytes::from(Value::Array(vec![request; asks]).to_string());
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut ended = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    let mut asked = 0;
    loop {
        tokio::select! {
            biased;
            _ = &mut ended => break,
            _ = ticks.tick() => client.publish_with_reply(subject.clone(), inbox.clone(), array.clone()).await?,
        }
        asked += asks;
    }
    println!("{asked}");
    Ok(())
}
