//! Budgets over NATS, while schedulers crash.

use crate::prelude::*;

const BUDGET: &str = r#"
[[resource]]
name = "api"
start = "full"
limit = [{ name = "budget", unit = "usd", algorithm = "quota", resets = "never", capacity = 1 }]
"#;

#[tokio::test]
async fn after_a_crash_a_call_in_flight_still_pays_what_it_costs() {
    let (nats, mut process, worker) = Worker::beside_process(RAMPMETER, BUDGET).await;
    worker.ask(json!({ "id": "x", "cost": { "usd": 0.1 } })).await;
    worker.settle(json!({ "id": "x", "cost": { "usd": 0 } })).await;
    let answer = worker.ask(json!({ "id": "a", "cost": { "usd": 0.4 } })).await;
    assert_eq!(answer["status"], "granted", "{answer}");
    let written = nats::writes(&nats).await;
    until("a checkpoint", async || (nats::writes(&nats).await > written + 1).then_some(())).await;
    process.kill().await;
    let _successor = Process::start(RAMPMETER, &nats, BUDGET).await;
    let before = worker.limit("budget").await.level;
    // A crash also costs about as much as the largest recent call.
    assert!((0.1..=0.6).contains(&before), "{before}");
    for _ in 0..2 {
        let settled = worker.settle(json!({ "id": "a", "cost": { "usd": 0.1 } })).await;
        assert_eq!(settled["status"], "settled", "{settled}");
    }
    let back = worker.limit("budget").await.level - before;
    assert!((back - 0.3).abs() < 1e-9, "{back}");
}
