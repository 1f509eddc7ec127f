//! The margin of a token bucket follows what workers tell of their calls.

use crate::prelude::*;
const HUB: &str = r#"
[[resource]]
name = "hub"
limit = [{ name = "per-second", capacity = 1000, period = "1s" }]
"#;

#[tokio::test]
async fn a_quick_network_takes_less_of_a_margin() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let workers = [Worker::connect(&nats, "hub").await, Worker::connect(&nats, "hub").await];
    assert_eq!(workers[0].limit("per-second").await.margin, 51.0, "50 ms are assumed");
    let mut calls = 0;
    until("a millisecond is measured", async || {
        for worker in &workers {
            let id = format!("call-{calls}");
            calls += 1;
            worker.ask(json!({ "id": id })).await;
            worker.settle(json!({ "id": id, "late_ms": 0.2, "elapsed_ms": 3 })).await;
        }
        (workers[0].limit("per-second").await.margin == 2.0).then_some(())
    })
    .await;
}
