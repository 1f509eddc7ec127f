//! Clients that disappear while they wait cost other clients neither time nor tokens.

use crate::prelude::*;

/// The number of requests of one client that is gone.
const GONE: usize = 10_000;
/// Elements of one array.
const ARRAY: usize = 1000;
/// How much later a living worker may start behind these requests than without them.
const LATER: Span = Span::from_millis(1000);

/// The longest time between a grant's answer and its start.
const HORIZON: Span = Span::from_millis(50);

/// The inboxes of a client's answers.
#[derive(Clone, Copy)]
enum Inboxes {
    /// One subject for all.
    One,
    /// Subjects that differ in their last token, under one subscription.
    Numbered,
}

const API: &str = "[[resource]]\nname = \"api\"\nstart = \"full\"\n\
    [[resource.limit]]\nname = \"ten\"\ncapacity = 10\nmargin = 0\nperiod = \"4s\"\n";

/// Sends the requests of a client that closes its connection as soon as all of them wait.
async fn go_after_asking(nats: &Server, worker: &Worker, inboxes: Inboxes, progress: bool) {
    let client = nats::connect(nats).await;
    let own = client.new_inbox();
    let mut answers = client.subscribe(format!("{own}.>")).await.unwrap();
    tokio::spawn(async move { while answers.next().await.is_some() {} });
    let asked = json!({ "mode": "wait", "progress": progress });
    let payload = Value::Array(vec![asked; ARRAY]).to_string();
    for array in 0..GONE / ARRAY {
        let inbox = match inboxes {
            Inboxes::One => format!("{own}.all.of.them"),
            Inboxes::Numbered => format!("{own}.{array}"),
        };
        client.publish_with_reply("rampmeter.permit.api", inbox, payload.clone().into()).await.unwrap();
    }
    until("all are in line, or some have been granted", async || {
        (worker.queued().await >= GONE as u64 || worker.status().await.counters.granted > 2).then_some(())
    })
    .await;
    client.drain().await.unwrap();
}

/// Checks the start of a living worker whose request waits behind those of a client that is gone.
/// The start is at most [`LATER`] after a start alone, and the levels are as they would be alone.
#[allow(clippy::print_stdout, reason = "what was measured, with --nocapture")]
async fn starts_behind(inboxes: Inboxes, progress: bool) -> Result<(), String> {
    let (nats, _running, worker) = Worker::beside_scheduler(API).await;
    // Enough time to join the queue before any request is granted.
    for _ in 0..2 {
        worker.ask(json!({ "mode": "reserve", "cost": { "requests": 10 } })).await;
    }
    let clock = Clock::start();
    let refused = worker.ask(json!({ "mode": "allow" })).await;
    let alone = Span::from_millis(refused["retry_after_ms"].as_f64().unwrap() as u64);
    go_after_asking(&nats, &worker, inboxes, progress).await;
    in_time("all to be in line", clock.now().since(Clock::START), alone)?;
    let granted = worker.ask(json!({ "mode": "wait" })).await;
    let start = clock.now().since(Clock::START) + Span::from_millis(granted["delay_ms"].as_f64().unwrap() as u64);
    let later = start.saturating_sub(alone);
    let counters = worker.status().await.counters;
    println!("{later} later than alone; {counters:?}");
    in_time("a start behind them", later, LATER)?;
    let_pass((start + HORIZON).saturating_sub(clock.now().since(Clock::START)).duration(), "the call starts").await;
    let refilled = clock.now().since(Clock::START).secs();
    let level = worker.limit("ten").await.level;
    let expected = refilled * 2.5 - 11.0;
    assert!(level > expected - 0.5, "a level of {level} where {expected} is left");
    Ok(())
}

#[tokio::test]
async fn ten_thousand_requests_of_a_client_that_is_gone_delay_no_other() {
    for (inboxes, progress) in [(Inboxes::One, false), (Inboxes::Numbered, true), (Inboxes::Numbered, false)] {
        undisturbed(async || starts_behind(inboxes, progress).await).await;
    }
}
