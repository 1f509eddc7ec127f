//! The NATS server restarts with its own data or with older data, while no scheduler runs.

use crate::prelude::*;
/// A short limit, which refills too slowly to matter here, a long one and a quota.
const HUB: &str = r#"
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

/// The use since the copy is admitted again for long limits and quotas, and for no other limit.
async fn rolled_back(leaders_between: usize) {
    let mut nats = nats::start().await;
    take_and_stop(&nats, 10, "first").await;
    let kept = nats::back_up(&mut nats).await;
    let mut seen = Epoch::NONE;
    for leader in 0..leaders_between {
        seen = take_and_stop(&nats, 0, &format!("between-{leader}")).await;
    }
    nats::put_back(&mut nats, &kept).await;
    let (epoch, levels, known) = found(&nats).await;
    assert_eq!((levels, known), ([0.0, 990.0, 990.0], true));
    assert!(epoch > seen, "a client that has seen {seen} believes no lower one, and is answered in {epoch}");
}

#[tokio::test]
async fn an_older_copy_that_comes_back_while_no_scheduler_runs_gives_no_second_burst() {
    for leaders_between in [0, 1, 2] {
        rolled_back(leaders_between).await;
    }
}
