//! The store takes nothing any more: permits go on inside the mark, and beyond it only as far as the configuration says.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use async_nats::jetstream;
use rampmeter_nats_server::Server;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use rampmeter_tests::patience::{let_pass, until};
use rampmeter_tests::worker::Worker;
use rampmeter_tests::{nats, scheduler};
use serde_json::{Value, json};
use std::time::Duration;

/// A hundred requests a second.
const RATE: f64 = 100.0;

fn hub(more: &str) -> String {
    format!("[[resource]]\nname = \"hub\"\n{more}[[resource.limit]]\nname = \"few\"\ncapacity = 100\nperiod = \"1s\"\n")
}

async fn lose_store(nats: &Server) {
    jetstream::new(nats::connect(nats).await).delete_key_value("rampmeter").await.unwrap();
}

/// How many permits are granted within `time` to one who always wants another.
async fn granted_within(worker: &Worker, time: Duration) -> f64 {
    let (clock, before) = (Clock::start(), worker.status().await.counters.granted);
    while clock.now().since(Clock::START) < Span::from(time) {
        let wanted: Vec<Value> = vec![json!({"mode": "allow"}); 10];
        worker.ask(Value::Array(wanted)).await;
        let_pass(Duration::from_millis(20), "tokens come in").await;
    }
    (worker.status().await.counters.granted - before) as f64
}

/// What is granted in three seconds and a half without a store.
async fn granted_without_store(more: &str) -> f64 {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, &hub(more)).await;
    let worker = Worker::connect(&nats, "hub").await;
    until("the stock is used up", async || {
        (worker.limit("few").await.level < 5.0).then_some(()).or({
            worker.ask(json!({"cost": {"requests": 5}, "mode": "allow"})).await;
            None
        })
    })
    .await;
    lose_store(&nats).await;
    granted_within(&worker, Duration::from_millis(3500)).await
}

#[tokio::test]
async fn hold_stops_where_the_mark_ends() {
    let granted = granted_without_store("").await;
    assert!((1.0..=0.6 * RATE).contains(&granted), "a reservation of 0.3 s, and what was there: {granted}");
}

#[tokio::test]
async fn a_longer_reservation_bridges_more() {
    let granted = granted_without_store("reservation = \"2s\"\n").await;
    assert!((0.8 * RATE..=2.6 * RATE).contains(&granted), "{granted}");
}

#[tokio::test]
async fn ride_goes_on_for_as_long_as_it_may() {
    let granted = granted_without_store("on_kv_loss = \"ride\"\nride_for = \"2s\"\n").await;
    assert!((1.2 * RATE..=2.9 * RATE).contains(&granted), "two seconds beside the mark: {granted}");
}
