//! Several schedulers share several resources, and take over from each other.

use crate::prelude::*;

const NAMES: [&str; 4] = ["one", "two", "three", "four"];

fn resources() -> String {
    let resource = |name: &str| {
        format!(
            "[[resource]]\nname = \"{name}\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 4\nperiod = \"400h\"\n"
        )
    };
    NAMES.map(resource).concat()
}

/// How many resources each scheduler leads, the fewest first.
async fn shares(nats: &Server) -> Vec<usize> {
    let mut leaders: BTreeMap<String, usize> = BTreeMap::new();
    for name in NAMES {
        let status = Worker::connect(nats, name).await.status_of_leader().await;
        *leaders.entry(status.leader).or_default() += 1;
    }
    let mut shares: Vec<usize> = leaders.into_values().collect();
    shares.sort_unstable();
    shares
}

async fn until_shared(nats: &Server, expected: &[usize]) {
    until("resources are shared so", async || (shares(nats).await == expected).then_some(())).await;
}

async fn start(nats: &Server) -> Running {
    scheduler::start(nats, &resources()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_move_when_a_scheduler_joins_or_leaves() {
    let nats = nats::start().await;
    let first = start(&nats).await;
    let worker = Worker::connect(&nats, "one").await;
    worker.ask(json!({"id": "a", "cost": {"requests": 3}})).await;
    until_shared(&nats, &[4]).await;

    let second = start(&nats).await;
    until_shared(&nats, &[2, 2]).await;
    let _third = start(&nats).await;
    until_shared(&nats, &[1, 1, 2]).await;
    scheduler::stop(first).await;
    until_shared(&nats, &[2, 2]).await;
    scheduler::stop(second).await;
    until_shared(&nats, &[4]).await;

    let level = worker.status_of_leader().await.limits[0].level;
    assert!((0.5..1.1).contains(&level), "nothing is lost on the way: {level}");
    let again = worker.ask(json!({"id": "a", "cost": {"requests": 3}})).await;
    assert_eq!((&again["status"], &again["code"]), (&json!("refused"), &json!("lapsed")), "the permit is known");
}
