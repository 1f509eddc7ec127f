//! Limits with a bucket for each key, over NATS.

use crate::prelude::*;

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
    let nats = nats::start().await;
    let worker = Worker::connect(&nats, "hub").await;
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
