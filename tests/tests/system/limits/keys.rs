//! Limits for some requests, and limits with a bucket for each key, over NATS.

use crate::prelude::*;

/// Each client may call five times in 100 s, the important one fifty times. Requests without a
/// client count as unknown.
const HUB: &str = r#"
[[resource]]
name = "hub"
unmatched = "refuse"
max_keys = 3
limit = [
    { name = "per-client", group = "clients", key = ["client"], capacity = 5, period = "100s", margin = 0 },
    { name = "important", group = "clients", key = ["client"], match = { client = "vip" }, capacity = 50, period = "100s", margin = 0 },
    { name = "heavy", match = { route = "^/heavy/", method = ["PUT", "PATCH"] }, capacity = 1, period = "100s", margin = 0 },
]
"#;

/// Asks for this many permits at once, and counts the immediate grants.
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
    let _running = scheduler::start(&nats, HUB).await;
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
}

#[tokio::test]
async fn what_no_limit_is_for_is_refused_where_the_resource_says_so() {
    let (nats, worker) = hub().await;
    let _running = scheduler::start(&nats, HUB).await;
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
}

#[tokio::test]
async fn a_restart_keeps_every_key_and_a_crash_empties_those_of_short_periods() {
    let (nats, worker) = hub().await;
    let process = Process::start(RAMPMETER, &nats, HUB).await;
    assert_eq!(granted_now(&worker, json!({"client": "a"}), 3).await, 3);
    process.stop().await;

    let mut process = Process::start(RAMPMETER, &nats, HUB).await;
    assert_eq!(granted_now(&worker, json!({"client": "a"}), 5).await, 2, "three are gone");
    assert_eq!(granted_now(&worker, json!({"client": "b"}), 6).await, 5, "an unknown key has a full bucket");

    process.kill().await;
    process.restart();
    process.until_ready().await;
    for client in ["a", "b", "c"] {
        assert_eq!(granted_now(&worker, json!({"client": client}), 5).await, 0, "{client} may have spent it all");
    }
    process.stop().await;
}

/// Ten calls for each client, whenever they are made, and a thousand an hour for each team.
const QUOTAS: &str = r#"
[[resource]]
name = "hub"
limit = [
    { name = "in-all", algorithm = "quota", resets = "never", key = ["client"], capacity = 10 },
    { name = "per-hour", key = ["team"], capacity = 1000, period = "1h" },
]
"#;

/// Asks until nothing is left, and counts the grants.
async fn all_that_is_left(worker: &Worker, client: &str) -> usize {
    let mut granted = 0;
    loop {
        let labels = json!({"client": client, "team": "ours"});
        let answer = worker.ask(json!({"mode": "allow", "labels": labels})).await;
        match answer["code"].as_str() {
            None => granted += 1,
            // No checkpoint lists the key yet, or a new leader has just begun.
            Some("unavailable") => {}
            Some(code) => {
                assert_eq!((code, &answer["limited_by"]), ("quota_spent", &json!("in-all")));
                return granted;
            }
        }
    }
}

#[tokio::test]
async fn a_crash_leaves_every_key_what_is_left_of_its_quota() {
    let (nats, worker) = hub().await;
    let mut process = Process::start(RAMPMETER, &nats, QUOTAS).await;
    assert_eq!(granted_now(&worker, json!({"client": "a", "team": "ours"}), 3).await, 3);
    process.kill().await;
    process.restart();
    process.until_ready().await;
    assert_eq!(all_that_is_left(&worker, "b").await, 10, "an unknown key has a full bucket");
    // Unknown grants may be twice as many as recent ones.
    let left = all_that_is_left(&worker, "a").await;
    assert!((1..=7).contains(&left), "{left}");
    process.stop().await;

    let process = Process::start(RAMPMETER, &nats, QUOTAS).await;
    for (client, left) in [("a", 0), ("b", 0), ("c", 10)] {
        assert_eq!(all_that_is_left(&worker, client).await, left, "{client}");
    }
    process.stop().await;
}

/// More keys than one value of the store has room for; most of them can be recorded.
const WINDOWS: &str = r#"
[[resource]]
name = "hub"
limit = [
    { name = "per-client", algorithm = "fixed-window", aligned = "first-use", key = ["client"], capacity = 5, period = "10h" },
]
"#;

fn thousands(worker_clients: std::ops::Range<usize>, cost: u64) -> Value {
    let client = |number: usize| json!({"mode": "allow", "cost": {"requests": cost}, "labels": {"client": format!("client-{number:0>60}")}});
    worker_clients.map(client).collect()
}

/// How many of these clients get a call of this cost.
async fn granted_of(worker: &Worker, clients: std::ops::Range<usize>, cost: u64) -> usize {
    let mut granted = 0;
    for first in clients.clone().step_by(500) {
        let answers = worker.ask(thousands(first..clients.end.min(first + 500), cost)).await;
        granted += answers.as_array().unwrap().iter().filter(|answer| answer["status"] == "granted").count();
    }
    granted
}

/// A crash leaves each key what it has, however many keys there are.
#[tokio::test]
async fn a_crash_leaves_thousands_of_keys_what_they_have() {
    let (nats, worker) = hub().await;
    let mut process = Process::start(RAMPMETER, &nats, WINDOWS).await;
    assert_eq!(granted_of(&worker, 0..10_000, 2).await, 10_000);
    process.kill().await;
    process.restart();
    process.until_ready().await;
    for first in [0, 4_000, 7_000] {
        assert_eq!(granted_of(&worker, first..first + 500, 4).await, 0, "more than is left, of {first} and on");
        assert_eq!(granted_of(&worker, first..first + 500, 3).await, 500, "what is left, of {first} and on");
    }
    process.stop().await;
}
