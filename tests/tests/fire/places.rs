//! Schedulers crash while short calls are in flight, each of which may hold its place for a minute.
//! Soon nearly all places are free again.

use crate::prelude::*;
use std::sync::atomic::AtomicBool;

const TIME_TO_LIVE: Duration = Duration::from_secs(60);
const CALL: Duration = Duration::from_millis(50);
const PLACES: usize = 100;
const WORKERS: usize = 2 * PLACES;
/// The number of keys, which share the places.
const KEYS: usize = 10;
const CRASHES: Cycles = Cycles { usual: 3, long: 10 };
/// Calls until a crash: the leader writes some checkpoints meanwhile.
const BETWEEN: std::ops::Range<Duration> = Duration::from_millis(600)..Duration::from_millis(900);
/// Until then enough places are free again.
const LONGEST: Span = Span::from_secs(2);
const MOST: usize = PLACES * 9 / 10;
/// A crash costs each key a place or two for a minute, for calls that may have begun after the
/// checkpoint: with several crashes in a minute they add up.
const MOST_OF_KEYS: usize = PLACES * 7 / 10;

fn places() -> String {
    calls_in_flight(PLACES, TIME_TO_LIVE).replace("api", "hub")
}

fn places_by_key() -> String {
    format!("{}key = [\"key\"]\n", calls_in_flight(PLACES / KEYS, TIME_TO_LIVE).replace("api", "hub"))
}

fn key(number: usize) -> String {
    (number % KEYS).to_string()
}

/// Makes calls of a key one after the other until `stop`.
async fn calls(hub: Resource, key: String, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let permit = hub.acquire(Cost::requests(1)).label("key", &key).await.unwrap().begin();
        let_pass(CALL, "a call takes its time").await;
        drop(permit);
    }
}

/// How many calls may start now. Gives their permits back.
async fn startable_now(worker: &Worker) -> usize {
    let asks = (0..PLACES).map(
        |number| json!({"id": format!("{number}-{}", unix_ms()), "mode": "allow", "labels": {"key": key(number)}}),
    );
    let answer = worker.request("permit", Value::Array(asks.collect()).to_string());
    let Ok(answer) = tokio::time::timeout(Duration::from_secs(1), answer).await else { return 0 };
    let Ok(Value::Array(answers)) = serde_json::from_slice(&answer.payload) else { return 0 };
    let granted: Vec<&Value> = answers.iter().filter(|answer| answer["status"] == "granted").collect();
    let back = granted.iter().map(|answer| json!({"id": answer["id"], "used": false}));
    worker.settle(Value::Array(back.collect())).await;
    granted.len()
}

/// Crashes the scheduler while workers call, and waits until enough places are free.
#[allow(clippy::print_stdout, reason = "what was measured, with --nocapture")]
async fn crashed(worker: &Worker, hub: &Resource, enough: usize, crash: impl AsyncFnOnce()) -> Result<(), String> {
    let stop = Arc::new(AtomicBool::new(false));
    let calling: Vec<_> =
        (0..WORKERS).map(|number| tokio::spawn(calls(hub.clone(), key(number), Arc::clone(&stop)))).collect();
    crash().await;
    let clock = Clock::start();
    stop.store(true, Ordering::Relaxed);
    within("the last calls end", join_all(calling)).await.into_iter().for_each(Result::unwrap);
    let mut most = 0;
    while most < enough && clock.now() < Clock::START + LONGEST {
        most = most.max(startable_now(worker).await);
    }
    println!("{most} of {PLACES} places free after {}", clock.now().since(Clock::START));
    if most >= enough { Ok(()) } else { Err(format!("{most} of {PLACES} places")) }
}

async fn pair_crashes(resources: &str, enough: usize) -> Result<(), String> {
    let nats = nats::start().await;
    let configuration = scheduler::configuration(nats.url(), resources);
    let mut pair = Pair::start(RAMPMETER, [&configuration; 2]).await;
    let (worker, client) = (Worker::connect(&nats, "hub").await, Client::connect(nats.url()).await.unwrap());
    let (hub, mut dice) = (client.resource("hub").unwrap(), Run::of("places").dice());
    let crashes = if enough == MOST { CRASHES.count() } else { 1 };
    for _ in 0..crashes {
        let leader = pair.leader().await;
        let process = pair.process_mut(leader);
        crashed(&worker, &hub, enough, async || {
            let_pass(dice.span(BETWEEN), "the leader writes checkpoints").await;
            process.kill().await;
        })
        .await?;
        pair.process_mut(leader).restart();
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_busy_limit() {
    undisturbed(async || pair_crashes(&places(), MOST).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_busy_keys() {
    undisturbed(async || pair_crashes(&places_by_key(), MOST_OF_KEYS).await).await;
}

/// No scheduler stands by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_the_only_scheduler() {
    undisturbed(async || {
        let nats = nats::start().await;
        let mut process = Process::start(RAMPMETER, &nats, &places()).await;
        let (worker, client) = (Worker::connect(&nats, "hub").await, Client::connect(nats.url()).await.unwrap());
        let hub = client.resource("hub").unwrap();
        for _ in 0..CRASHES.count() {
            crashed(&worker, &hub, MOST, async || {
                let_pass(BETWEEN.start, "the leader writes checkpoints").await;
                process.kill().await;
                process.restart();
            })
            .await?;
        }
        Ok::<(), String>(())
    })
    .await;
}
