//! The nats-server stops and comes back. The scheduler finds it, answers, and has forgotten
//! nothing.

use crate::prelude::*;

/// One request a second, ten at once.
const HUB: &str = r#"
[[resource]]
name = "hub"
max_ahead = "8000h"
limit = [{ name = "per-second", capacity = 10, period = "10s", margin = 0 }]
"#;

struct Stage {
    worker: Worker,
    scheduler: Running,
    nats: Server,
}

/// A scheduler with promises for the next 100 seconds, from the permit `first` to `last`.
async fn indebted() -> Stage {
    let (nats, scheduler, worker) = Worker::beside_scheduler(HUB).await;
    worker.ask(json!({"id": "first"})).await;
    worker.ask(Value::Array(vec![json!({}); 108])).await;
    worker.ask(json!({"id": "last"})).await;
    Stage { worker, scheduler, nats }
}

/// Checks that it answers in the same epoch, with the same debt and the known permits.
async fn check_nothing_is_forgotten(stage: &Stage) {
    let worker = &stage.worker;
    let status = worker.status_of_leader().await;
    let level = status.limits[0].level;
    assert!((-100.0..-60.0).contains(&level), "{level}");
    let settled = worker.settle(json!([{"id": "first"}, {"id": "last", "used": false}])).await;
    assert_eq!(settled, json!([{"status": "settled", "id": "first"}, {"status": "settled", "id": "last"}]));
    let after = worker.limit("per-second").await.level;
    assert!((level + 1.0..level + 5.0).contains(&after), "`last` came back: {level}, then {after}");
}

async fn until_ready(stage: &Stage, ready: bool) {
    until("readiness has changed", async || {
        let (status, _) = scheduler::page(&stage.scheduler, "/readyz").await;
        ((status == 200) == ready).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_killed_server_that_comes_back() {
    let mut stage = indebted().await;
    for _ in 0..2 {
        stage.nats.kill().await.unwrap();
        until_ready(&stage, false).await;
        stage.nats.restart().await.unwrap();
        until_ready(&stage, true).await;
    }
    check_nothing_is_forgotten(&stage).await;
}

#[tokio::test]
async fn a_server_that_stays_away_longer_than_a_write_may_take() {
    let mut stage = indebted().await;
    stage.worker.tell("settle", json!({"id": "first"}).to_string()).await;
    stage.nats.kill().await.unwrap();
    let_pass(Duration::from_secs(3), "what the scheduler writes meanwhile times out after 2 s").await;
    stage.nats.restart().await.unwrap();
    until_ready(&stage, true).await;
    check_nothing_is_forgotten(&stage).await;
}

#[tokio::test]
async fn a_server_that_hangs_and_goes_on() {
    let stage = indebted().await;
    stage.nats.pause().unwrap();
    let_pass(Duration::from_secs(3), "what the scheduler writes meanwhile times out after 2 s").await;
    stage.nats.resume().unwrap();
    until_ready(&stage, true).await;
    check_nothing_is_forgotten(&stage).await;
}

#[tokio::test]
async fn a_request_that_waits_through_a_restart_is_served_on_asking_again() {
    let mut stage = indebted().await;
    let lost = stage.worker.send("permit", r#"{"id": "waiting", "mode": "wait"}"#).await;
    stage.worker.status().await;
    stage.nats.kill().await.unwrap();
    drop(lost);
    stage.nats.restart().await.unwrap();
    until_ready(&stage, true).await;
    stage.worker.status_of_leader().await;
    let mut again = stage.worker.send("permit", r#"{"id": "waiting", "mode": "wait", "progress": true}"#).await;
    let queued = again.body().await;
    assert_eq!((&queued["status"], &queued["position"]), (&json!("queued"), &json!(0)), "it has kept its place");
}
