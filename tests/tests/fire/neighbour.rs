//! One client asks for whatever it can get, beside a hundred quiet ones: they notice next to nothing.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use crate::RAMPMETER;
use futures::StreamExt;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use rampmeter_tests::figures::Times;
use rampmeter_tests::fire::{Cycles, is_long};
use rampmeter_tests::nats;
use rampmeter_tests::process::Process;
use rampmeter_tests::worker::Worker;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

/// Three calls per second for each client, as a web service allows them.
const HUB: &str = r#"
[[resource]]
name = "hub"

[[resource.limit]]
name = "per-client"
key = ["client"]
capacity = 3
period = "1s"
"#;

const ROUNDS: Cycles = Cycles { usual: 1, long: 7 };
const QUIET: usize = 100;
/// Each quiet client asks twice in a second, for so many seconds in each half of a round.
const ASKS: usize = 2 * 2 * QUIET;
const BETWEEN: Duration = Duration::from_millis(5);
/// Fifty thousand asks in a second, which leave nothing to other tests on a small machine; or five thousand.
const ARRAYS: Cycles = Cycles { usual: 1, long: 10 };
const TICK: Duration = Duration::from_millis(10);
const IN_ARRAY: usize = 50;
const MOST_OF_ALONE: f64 = 2.0;

/// Round trips of quiet clients, none of whom is refused.
async fn quiet_round_trips(worker: &Worker) -> Times {
    let clock = Clock::start();
    let (mut turns, mut asking) = (interval(BETWEEN), JoinSet::new());
    for number in 0..ASKS {
        turns.tick().await;
        let (worker, client) = (worker.clone(), format!("quiet-{}", number % QUIET));
        asking.spawn(async move {
            let asked = clock.now();
            let answer = worker.ask(json!({ "mode": "wait", "labels": { "client": client } })).await;
            (answer, clock.now().since(asked))
        });
    }
    let mut times = Times::default();
    for (answer, took) in asking.join_all().await {
        assert_eq!(answer["status"], "granted", "{answer}");
        times.add(took);
    }
    times
}

/// A client that asks all the time, and reads what it is told.
struct Noisy {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    asking: JoinHandle<()>,
    reading: JoinHandle<()>,
}

impl Noisy {
    async fn start(worker: Worker) -> Self {
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let client = worker.client().clone();
        let inbox = client.new_inbox();
        let mut answers = client.subscribe(inbox.clone()).await.unwrap();
        let reading = tokio::spawn(async move { while answers.next().await.is_some() {} });
        let request = json!({ "mode": "wait", "labels": { "client": "noisy" } });
        let array = bytes::Bytes::from(Value::Array(vec![request; IN_ARRAY]).to_string());
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&asked));
        let asking = tokio::spawn(async move {
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            while !stopped.load(Ordering::Relaxed) {
                ticks.tick().await;
                for _ in 0..ARRAYS.count() {
                    client.publish_with_reply(worker.subject("permit"), inbox.clone(), array.clone()).await.unwrap();
                    count.fetch_add(IN_ARRAY as u64, Ordering::Relaxed);
                }
            }
            client.flush().await.unwrap();
        });
        Noisy { stop, asked, asking, reading }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.asking.await.unwrap();
        self.reading.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout, reason = "what was measured, with --nocapture")]
async fn one_noisy_beside_a_hundred_quiet() {
    let nats = nats::start().await;
    let scheduler = Process::start(RAMPMETER, &nats, HUB).await;
    let [quiet, noisy] = [Worker::connect(&nats, "hub").await, Worker::connect(&nats, "hub").await];
    quiet_round_trips(&quiet).await;
    let mut ratios = Vec::new();
    for round in 1..=ROUNDS.count() {
        let alone = quiet_round_trips(&quiet).await;
        let clock = Clock::start();
        let flood = Noisy::start(noisy.clone()).await;
        let beside = quiet_round_trips(&quiet).await;
        let rate = flood.asked.load(Ordering::Relaxed) as f64 / clock.now().since(Clock::START).secs();
        flood.end().await;
        let p99 = |times: &Times| times.quantile(99).unwrap_or(Span::ZERO).millis();
        println!(
            "round {round}: alone {alone}, beside {rate:.0} asks/s {beside}; p99 {:.2} and {:.2} ms",
            p99(&alone),
            p99(&beside)
        );
        ratios.push(p99(&beside) / p99(&alone));
    }
    ratios.sort_by(f64::total_cmp);
    println!("p99 beside the noisy one to that alone: {ratios:.2?}");
    assert!(!is_long() || ratios[ratios.len() / 2] <= MOST_OF_ALONE, "{ratios:.2?}");
    scheduler.stop().await;
}
