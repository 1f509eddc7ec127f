//! The NATS server restarts with its own data or with older data, while no scheduler runs.

use crate::prelude::*;
/// A short limit, which refills too slowly to matter here, a long one and a quota.
pub(super) const HUB: &str = r#"
[[resource]]
name = "hub"
start = "full"
limit = [
    { name = "short", capacity = 100, period = "500s", margin = 0 },
    { name = "long", capacity = 1000, period = "400h", margin = 0 },
    { name = "quota", algorithm = "quota", capacity = 1000, resets = "never" },
    { name = "by-guild", key = ["guild"], capacity = 100, period = "500s", margin = 0 },
]
"#;

/// Takes this many requests in a term of its own, and returns its epoch.
async fn take_and_stop(nats: &Server, requests: u64, id: &str) -> Epoch {
    let running = scheduler::start(nats, HUB).await;
    let worker = Worker::connect(nats, "hub").await;
    let asked = json!({ "id": id, "cost": { "requests": requests }, "labels": { "guild": "g" } });
    let granted = worker.ask(asked).await;
    assert_eq!(granted["status"], "granted", "{granted}");
    scheduler::stop(running).await;
    Epoch::new(granted["epoch"].as_u64().unwrap())
}

/// What a new scheduler finds, rounded down: epoch, levels, and whether the permit `first` is
/// known.
async fn found(nats: &Server) -> (Epoch, [f64; 3], bool) {
    let running = scheduler::start(nats, HUB).await;
    let worker = Worker::connect(nats, "hub").await;
    let status = worker.status().await;
    let level = |name: &str| status.limits.iter().find(|limit| &*limit.name == name).unwrap().level.floor();
    let known = worker.settle(json!({ "id": "first" })).await["status"] == "settled";
    let keyed = worker.ask(json!({ "mode": "allow", "cost": { "requests": 20 }, "labels": { "guild": "g" } })).await;
    let levels = [level("short"), level("long"), level("quota")];
    assert_eq!(keyed["status"] == "granted", levels[0] > 20.0, "keys are like limits without: {keyed}");
    scheduler::stop(running).await;
    (status.epoch, levels, known)
}

#[tokio::test]
async fn a_server_that_is_restarted_with_all_schedulers_costs_the_stock_of_short_limits_and_no_more() {
    let mut nats = nats::start().await;
    take_and_stop(&nats, 30, "first").await;
    assert_eq!(found(&nats).await, (Epoch::new(2), [70.0, 970.0, 970.0], true), "the scheduler alone");
    let mut nats_of_others = nats::start().await;
    take_and_stop(&nats_of_others, 30, "first").await;
    nats_of_others.restart().await.unwrap();
    let (epoch, levels, known) = found(&nats_of_others).await;
    assert_eq!((levels, known), ([0.0, 970.0, 970.0], true));
    assert!(epoch > Epoch::new(2), "no client has seen a higher one");
    take_and_stop(&nats_of_others, 0, "zero").await;
    let (later, ..) = found(&nats_of_others).await;
    assert_eq!(later, epoch.next().next());
    nats.stop().await.unwrap();
}
