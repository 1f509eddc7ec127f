//! A worker makes the state as large as it can. An honest one is served meanwhile, checkpoints go on,
//! and a graceful stop forgets nothing.

use crate::prelude::*;

/// The longest labels, of characters that take six bytes in a record.
const LONGEST: usize = 256;
const FROZEN: usize = 400;
const RESERVED: usize = 300;
const ROUTES: usize = 1500;
/// The time in which an honest worker is served.
const SERVED: Span = Span::from_secs(5);

const KEYS: &str = r#"
[[resource]]
name = "hub"
limit = [{ name = "per-channel", key = ["guild", "channel"], capacity = 5, period = "10s" }]
"#;
const DISCOVERED: &str = r#"
[[resource]]
name = "hub"
dialect = "discord"
discover = true
discover_route = "route"
discover_key = ["guild", "channel"]
limit = [{ name = "many", capacity = 100000, period = "1s", margin = 0 }]
"#;

/// A label that no other call has.
fn label(number: usize) -> String {
    format!("{number:05}{}", "\u{1}".repeat(LONGEST - 5))
}

fn labels(number: usize) -> Value {
    json!({"guild": label(number), "channel": label(number)})
}

/// Asks for permits, settles each with the upstream's answer, and does so for many at a time.
async fn call(worker: &Worker, asks: impl Iterator<Item = Value>, response: impl Fn(usize) -> Value) {
    for (first, asks) in asks.collect::<Vec<_>>().chunks(20).enumerate() {
        let answers = worker.ask(json!(asks)).await;
        let ids = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).enumerate();
        let settles = ids.map(|(index, id)| json!({"id": id, "response": response(20 * first + index)}));
        worker.settle(Value::Array(settles.collect())).await;
    }
}

/// Freezes many keys, and reserves starts of many others.
async fn fill_with_keys(worker: &Worker) {
    let asks = (0..FROZEN).map(|number| json!({"labels": labels(number)}));
    call(worker, asks, |_| json!({"status": 429, "headers": {"retry-after": "60"}})).await;
    let reserves = (FROZEN..FROZEN + RESERVED).map(|number| vec![json!({"labels": labels(number)}); 10]);
    join_all(reserves.map(|asks| worker.ask(Value::Array(asks)))).await;
}

/// Makes up limits and their routes.
async fn fill_with_limits(worker: &Worker) {
    let asks = (0..ROUTES).map(|number| json!({"labels": {"route": label(number)}}));
    call(worker, asks, |number| {
        let bucket = format!("bucket-{}", number % 24);
        json!({"status": 200, "headers": {
            "x-ratelimit-bucket": bucket, "x-ratelimit-limit": "1000", "x-ratelimit-remaining": "999",
            "x-ratelimit-reset-after": "60",
        }})
    })
    .await;
}

/// Returns whether an honest worker got a permit at once.
async fn check(max_payload: usize, resources: &str, fill: impl AsyncFnOnce(&Worker)) -> bool {
    let (_folder, nats) = nats::configured(&format!("max_payload: {max_payload}\n")).await;
    let mut process = Process::start(RAMPMETER, &nats, resources).await;
    let [hostile, honest] = [Worker::connect(&nats, "hub").await, Worker::connect(&nats, "hub").await];
    fill(&hostile).await;
    let clock = Clock::start();
    let ask = json!({"id": "honest", "mode": "allow", "labels": {"guild": "honest", "channel": "a", "route": "b"}});
    let answer = honest.ask(ask).await;
    in_time("an honest worker's answer", clock.now().since(Clock::START), SERVED).unwrap();
    let written = nats::writes(&nats).await;
    until("checkpoints go on", async || (nats::writes(&nats).await > written + 2).then_some(())).await;

    process.terminate();
    assert!(process.ended().await.success(), "{}", process.log());
    let log = process.log();
    assert!(log.contains("state is saved"), "{log}");
    process.restart();
    process.until_ready().await;
    let is_granted = answer["status"] == "granted";
    let settled = honest.settle(json!({"id": "honest"})).await;
    assert_eq!(settled["status"] == "settled", is_granted, "{answer} {settled}");
    is_granted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_frozen_keys_and_reservations() {
    assert!(check(1 << 20, KEYS, fill_with_keys).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_limits_that_answers_make_up() {
    // The rate that nobody wrote begins low, and is used up.
    check(1 << 20, DISCOVERED, fill_with_limits).await;
}

/// Neither a record nor a part of the permits may be as long as usual.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_store_of_short_values() {
    assert!(check(1 << 17, KEYS, fill_with_keys).await);
}
