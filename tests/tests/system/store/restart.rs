//! A stop in time, and a start with state that is damaged or of a newer build.

use crate::prelude::*;
use bytes::Bytes;

/// One request a second, ten at once.
const HUB: &str = r#"
[[resource]]
name = "hub"
max_ahead = "8000h"
limit = [{ name = "per-second", capacity = 10, period = "10s", margin = 0 }]
"#;
const CAPACITY: f64 = 10.0;
/// How long a scheduler may take from SIGTERM to its end.
const DRAIN: Span = Span::from_secs(5);

/// The numbers of waiting requests: as many as a resource takes by default, and those of one
/// message and one connection.
const WAITING: usize = 100_000;
const IN_MESSAGE: usize = 1_000;
const OF_WORKER: usize = 25_000;
/// How long it may take until all have an update, including the time in which an unoptimised test
/// reads them.
const HEARD: Span = Span::from_secs(2);

/// A resource without any token left.
const SPENT: &str = r#"
[[resource]]
name = "hub"
limit = [{ name = "few", capacity = 1, period = "8000h", margin = 0 }]
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_waiting_requests_all_learn_of_a_hand_over() {
    undisturbed(async || {
        let nats = nats::start().await;
        let clock = Clock::start();
        let mut process = Process::start(RAMPMETER, &nats, SPENT).await;
        let worker = Worker::connect(&nats, "hub").await;
        worker.ask(json!({})).await;
        let asks = Value::Array(vec![json!({"mode": "wait"}); IN_MESSAGE]).to_string();
        let mut workers = Vec::new();
        for _ in 0..WAITING / OF_WORKER {
            let worker = Worker::connect(&nats, "hub").await;
            let answers = worker.send("permit", asks.clone()).await;
            for _ in 1..OF_WORKER / IN_MESSAGE {
                worker.send_also(&answers, "permit", asks.clone()).await;
            }
            workers.push(answers);
        }
        worker.until_queued(WAITING as u64).await;

        process.terminate();
        let asked_to_stop = clock.now();
        for answers in &mut workers {
            for _ in 0..OF_WORKER {
                let answer = answers.next().await.payload;
                assert!(answer.windows(11).any(|text| text == b"unavailable"), "{answer:?}");
            }
        }
        let took = clock.now().since(asked_to_stop);
        assert!(process.ended().await.success());
        in_time("until all have heard", took, HEARD)
    })
    .await;
}

#[tokio::test]
async fn a_stop_is_in_time_though_nats_hangs_and_readiness_is_off_meanwhile() {
    let nats = nats::start().await;
    let clock = Clock::start();
    let mut process = Process::start(RAMPMETER, &nats, HUB).await;
    nats.pause().unwrap();
    process.terminate();
    let asked_to_stop = clock.now();
    let ready = format!("{}/readyz", process.http().unwrap());
    let body: Value = until("not ready", async || {
        let response = http().get(&ready).send().await.expect("the process lives until it has tried to save");
        (response.status() == 503).then_some(response)?.json().await.ok()
    })
    .await;
    assert_eq!((&body["ready"], &body["resources"]["hub"]["state"]), (&json!(false), &json!("stopping")));
    process.ended().await;
    let took = clock.now().since(asked_to_stop);
    assert!(took < DRAIN + Span::from_secs(1), "{took}");
}

#[tokio::test]
async fn a_store_that_never_knew_the_resource_starts_as_configured() {
    for (start, full) in [("full", true), ("empty", false)] {
        let nats = nats::start().await;
        let resource = HUB.replace("limit =", &format!("start = \"{start}\"\nlimit ="));
        let _running = scheduler::start(&nats, &resource).await;
        let level = Worker::connect(&nats, "hub").await.limit("per-second").await.level;
        assert_eq!(level == CAPACITY, full, "{start}: {level}");
    }
}

#[tokio::test]
async fn damaged_state_starts_empty() {
    let (before, nats) = (unix_ms(), nats::start().await);
    scheduler::stop(scheduler::start(&nats, HUB).await).await;
    let bucket = nats::state_bucket(&nats).await;
    let mut value = bucket.get("state.hub").await.unwrap().unwrap().to_vec();
    *value.last_mut().unwrap() ^= 1;
    bucket.put("state.hub", Bytes::from(value)).await.unwrap();
    let _running = scheduler::start(&nats, HUB).await;
    let Status { limits, epoch, .. } = Worker::connect(&nats, "hub").await.status().await;
    assert!(limits[0].level < CAPACITY / 2.0, "{limits:?}");
    assert!(epoch >= Epoch::new(before), "the epoch is unknown, so it begins above all earlier ones: {epoch}");
}

#[tokio::test]
async fn state_of_a_newer_build_is_left_alone() {
    let nats = nats::start().await;
    scheduler::stop(scheduler::start(&nats, HUB).await).await;
    let bucket = nats::state_bucket(&nats).await;
    bucket.put("state.hub", "rampmeter 3 2 00000000\n{}".into()).await.unwrap();
    let running = scheduler::begin(&nats, HUB).await;
    let reason = scheduler::trouble(&running, "hub").await;
    assert!(reason.contains("its state is in format 3, which a newer build wrote"), "{reason}");
    assert_eq!(bucket.get("state.hub").await.unwrap().unwrap(), "rampmeter 3 2 00000000\n{}");
}
