//! Limits that are for some requests, and limits with a bucket for each key, over NATS.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use crate::RAMPMETER;
use rampmeter_nats_server::Server;
use rampmeter_tests::process::Process;
use rampmeter_tests::worker::Worker;
use rampmeter_tests::{nats, scheduler};
use serde_json::{Value, json};

/// Each client may call five times in 100 s, the important one fifty times; who says nothing of a client is unknown.
const HUB: &str = r#"
[[resource]]
name = "hub"
unmatched = "refuse"
max_keys = 3

[[resource.limit]]
name = "per-client"
group = "clients"
key = ["client"]
capacity = 5
period = "100s"
margin = 0

[[resource.limit]]
name = "important"
group = "clients"
key = ["client"]
match = { client = "vip" }
capacity = 50
period = "100s"
margin = 0

[[resource.limit]]
name = "heavy"
match = { route = "^/heavy/", method = ["PUT", "PATCH"] }
capacity = 1
period = "100s"
margin = 0
"#;

/// Asks for this many permits at once, and counts those that are granted now.
async fn granted_now(worker: &Worker, labels: Value, count: usize) -> usize {
    let request = json!({"mode": "allow", "labels": labels});
    let answers = worker.ask(Value::Array(vec![request; count])).await;
    answers.as_array().unwrap().iter().filter(|answer| answer["status"] == "granted").count()
}

async fn hub() -> (Server, Worker) {
    let nats = nats::start().await;
    let worker = Worker::connect(&nats, "hub").await;
    (nats, worker)
}

#[tokio::test]
async fn every_client_has_a_bucket_of_its_own() {
    let (nats, worker) = hub().await;
    let running = scheduler::start(&nats, HUB).await;
    assert_eq!(granted_now(&worker, json!({"client": "a"}), 20).await, 5);
    assert_eq!(granted_now(&worker, json!({"client": "b"}), 5).await, 5);
    assert_eq!(granted_now(&worker, json!({"client": "vip"}), 60).await, 50, "the most specific limit of the group");
    let refused = worker.ask(json!({"mode": "allow", "labels": {"client": "a"}})).await;
    assert_eq!((&refused["code"], &refused["limited_by"]), (&json!("not_in_time"), &json!("per-client")));

    let limit = worker.limit("per-client").await;
    assert_eq!(limit.keys, 2);
    assert!((0.0..0.5).contains(&limit.level), "{}", limit.level);

    let flood = worker.ask(json!({"mode": "allow", "labels": {"client": "d"}})).await;
    assert_eq!(flood["code"], "too_many_keys");
    scheduler::stop(running).await;
}

#[tokio::test]
async fn what_no_limit_is_for_is_refused_where_the_resource_says_so() {
    let (nats, worker) = hub().await;
    let running = scheduler::start(&nats, HUB).await;
    for (labels, code) in [
        (json!({}), json!("no_limit")),
        (json!({"clinet": "a"}), json!("no_limit")),
        (json!({"route": "/heavy/1", "method": "GET"}), json!("no_limit")),
        (json!({"route": "/heavy/1", "method": "PUT"}), Value::Null),
        (json!({"route": "/heavy/2", "method": "PATCH"}), json!("not_in_time")),
        (json!({"client": "a"}), Value::Null),
    ] {
        let answer = worker.ask(json!({"mode": "allow", "labels": labels})).await;
        assert_eq!(answer["code"], code, "{labels}: {answer}");
    }
    scheduler::stop(running).await;
}

#[tokio::test]
async fn a_restart_keeps_every_key_and_a_crash_empties_them() {
    let (nats, worker) = hub().await;
    let process = Process::start(RAMPMETER, &nats, HUB).await;
    assert_eq!(granted_now(&worker, json!({"client": "a"}), 3).await, 3);
    process.stop().await;

    let mut process = Process::start(RAMPMETER, &nats, HUB).await;
    assert_eq!(granted_now(&worker, json!({"client": "a"}), 5).await, 2, "three are gone");
    assert_eq!(granted_now(&worker, json!({"client": "b"}), 6).await, 5, "nobody knows it, so it has called nobody");

    process.kill().await;
    process.restart();
    process.until_ready().await;
    for client in ["a", "b", "c"] {
        assert_eq!(granted_now(&worker, json!({"client": client}), 5).await, 0, "{client} may have spent it all");
    }
    process.stop().await;
}
