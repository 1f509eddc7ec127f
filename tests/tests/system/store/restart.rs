//! A restart keeps every promise: SIGTERM, takeover, and state that is lost or damaged.

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
const RATE: f64 = 1.0;

/// How long a scheduler may take from SIGTERM to its end.
const DRAIN: Span = Span::from_secs(5);

fn delay(granted: &Value) -> Span {
    assert_eq!(granted["status"], "granted", "{granted}");
    Span::from_nanos((granted["delay_ms"].as_f64().unwrap() * 1e6) as u64)
}

/// Asks for permits one after the other until none is granted, and counts them. A request that
/// meets a stopping scheduler may stay without an answer.
async fn load(worker: Worker) -> u64 {
    let mut granted = 0;
    loop {
        let request = tokio::time::timeout(Duration::from_secs(1), worker.request("permit", "{}"));
        let Ok(answer) = request.await else { return granted };
        if answer.status == Some(StatusCode::NO_RESPONDERS) || body(&answer)["code"] == "unavailable" {
            return granted;
        }
        assert_eq!(body(&answer)["status"], "granted");
        granted += 1;
    }
}

#[tokio::test]
async fn a_restart_under_load_forgets_no_promise() {
    let nats = nats::start().await;
    let clock = Clock::start();
    let mut process = Process::start(RAMPMETER, &nats, HUB).await;
    let worker = Worker::connect(&nats, "hub").await;
    let all = json!({"requests": CAPACITY});
    worker.ask(Value::Array(vec![json!({"cost": all}); 10])).await;
    let promised = worker.ask(json!({"id": "promised", "cost": all})).await;
    let promised_start = clock.now() + delay(&promised);
    worker.ask(json!({"id": "to-return", "cost": all})).await;
    worker.ask(json!({"id": "settled", "cost": {"requests": 1}})).await;
    worker.settle(json!({"id": "settled"})).await;
    let mut waiting = worker.send("permit", r#"{"id": "waiting", "mode": "wait"}"#).await;
    let loads = [(); 4].map(|()| tokio::spawn(load(worker.clone())));
    until("there is load", async || (worker.status().await.counters.granted > 200).then_some(())).await;

    process.terminate();
    let asked_to_stop = clock.now();

    assert!(process.ended().await.success(), "{}", process.log());
    assert!(clock.now().since(asked_to_stop) <= DRAIN);
    let turned_away = waiting.body().await;
    assert_eq!((&turned_away["id"], &turned_away["code"]), (&json!("waiting"), &json!("unavailable")));
    assert_eq!(turned_away["retry_after_ms"], 0.0);
    let mut granted = 121.0;
    for load in loads {
        granted += load.await.unwrap() as f64;
    }
    let_pass(Duration::from_secs(2), "buckets refill while no scheduler runs").await;
    let process = Process::start(RAMPMETER, &nats, HUB).await;

    let status = worker.status().await;
    let at_most = CAPACITY - granted + RATE * clock.now().since(Clock::START).secs();
    let level = status.limits[0].level;
    assert!((at_most - 5.0..=at_most).contains(&level), "level {level}, expected a little below {at_most}");
    assert_eq!(status.epoch, Epoch::new(2));
    let again = worker.ask(json!({"id": "promised", "cost": all})).await;
    assert_near(clock.now() + delay(&again), promised_start);
    assert_eq!(worker.settle(json!({"id": "to-return", "used": false})).await["status"], "settled");
    assert_eq!(worker.settle(json!({"id": "settled", "cost": {"requests": 9}})).await["status"], "settled");
    let after = worker.limit("per-second").await.level;
    assert!(
        (level + 9.9..level + 12.0).contains(&after),
        "10 came back, and a second settle changes nothing: {level}, then {after}"
    );
    process.stop().await;
}

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
        let queued = async || worker.status().await.classes.iter().map(|class| class.queued).sum::<u64>();
        until("all wait", async || (queued().await == WAITING as u64).then_some(())).await;

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

/// Checks that the start is the promised one: not earlier, and later only by the delay of an answer
/// on a busy machine.
fn assert_near(start: Time, promised: Time) {
    assert!(start + Span::from_millis(50) >= promised, "{start} is before {promised}");
    assert!(start <= promised + Span::from_secs(1), "{start} is after {promised}");
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

/// The level and the epoch with which a scheduler of `resource` starts, after one term of a leader
/// and then `damage` to the store.
async fn level_after(resource: &str, damage: impl AsyncFnOnce(&Server)) -> (f64, Epoch) {
    let nats = nats::start().await;
    scheduler::stop(scheduler::start(&nats, resource).await).await;
    damage(&nats).await;
    let _running = scheduler::start(&nats, resource).await;
    let status = Worker::connect(&nats, "hub").await.status().await;
    (status.limits[0].level, status.epoch)
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
async fn state_that_is_whole_goes_on() {
    let (level, epoch) = level_after(HUB, async |_| ()).await;
    assert_eq!((level, epoch), (CAPACITY, Epoch::new(2)));
}

#[tokio::test]
async fn damaged_state_starts_empty() {
    let before = unix_ms();
    let damage = async |nats: &Server| {
        let bucket = nats::state_bucket(nats).await;
        let mut value = bucket.get("state.hub").await.unwrap().unwrap().to_vec();
        *value.last_mut().unwrap() ^= 1;
        bucket.put("state.hub", Bytes::from(value)).await.unwrap();
    };
    let (level, epoch) = level_after(HUB, damage).await;
    assert!(level < CAPACITY / 2.0, "{level}");
    assert!(epoch >= Epoch::new(before), "the epoch is unknown, so it begins above all earlier ones: {epoch}");
}

#[tokio::test]
async fn deleted_state_starts_empty() {
    for purge in [false, true] {
        let damage = async |nats: &Server| {
            let bucket = nats::state_bucket(nats).await;
            match purge {
                true => bucket.purge("state.hub").await.unwrap(),
                false => bucket.delete("state.hub").await.unwrap(),
            }
        };
        let (level, _) = level_after(HUB, damage).await;
        assert!(level < CAPACITY / 2.0, "{level}");
    }
}

#[tokio::test]
async fn state_of_a_newer_build_is_left_alone() {
    let nats = nats::start().await;
    scheduler::stop(scheduler::start(&nats, HUB).await).await;
    let bucket = nats::state_bucket(&nats).await;
    bucket.put("state.hub", "rampmeter 3 2 00000000\n{}".into()).await.unwrap();
    let running = scheduler::begin(&nats, HUB).await;
    let reason = until("the reason", async || {
        let (status, body) = scheduler::page(&running, "/readyz").await;
        let body: Value = serde_json::from_str(&body).unwrap();
        (status == 503).then(|| body["resources"]["hub"]["reason"].as_str().map(str::to_owned))?
    })
    .await;
    assert!(reason.contains("its state is in format 3, which a newer build wrote"), "{reason}");
    assert_eq!(bucket.get("state.hub").await.unwrap().unwrap(), "rampmeter 3 2 00000000\n{}");
}
