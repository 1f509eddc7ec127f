//! Upstreams over HTTP that differ from the configuration. A scheduler learns the difference from
//! workers' reports. Virtual time holds the figures to bounds
//! (`simulator/tests/behaviour/feedback.rs`); these tests show that the effects occur.

#![allow(clippy::print_stdout, reason = "a failure, or --nocapture, shows what was measured")]

use crate::prelude::*;
use rampmeter_tests::fleet::Job;
use tokio::task::JoinHandle;

/// Twenty requests a second.
const HUB: &str = r#"
[[resource]]
name = "hub"
dialect = "sentinel-hub"
start = "unproven"
limit = [{ name = "per-two-seconds", capacity = 40, period = "2s" }]
"#;
const CAPACITY: f64 = 40.0;
const RATE: f64 = 20.0;
const WORKERS: usize = 50;
/// More calls than any of these tests has time for.
const FOR_EVER: usize = 1_000_000;
/// The time over which rejections are counted, first and again.
const COUNTED: Duration = Duration::from_secs(8);
/// The further time in which the scheduler learns most of a loss of rate.
const LEARNING: Duration = Duration::from_secs(10);

fn job(upstream: &Upstream) -> Job {
    Job { resource: "hub", asking: Asking::InLine, api: Api::new(upstream), cost: BTreeMap::new() }
}

/// A stranger that uses the account without permits, until the end.
fn stranger(upstream: &Upstream, every: Duration) -> JoinHandle<()> {
    let api = Api::new(upstream);
    tokio::spawn(async move {
        loop {
            let_pass(every, "strangers call so often").await;
            api.call(&BTreeMap::new()).await.ok();
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_use_the_account() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    let upstream = upstream_with(&["requests=40/2s"], Dialect::SentinelHub).await;
    let stranger = stranger(&upstream, Duration::from_millis(250));
    let fleet = Fleet::start(&nats, WORKERS, FOR_EVER, &job(&upstream)).await;
    let clock = Clock::start();
    let_pass(Duration::from_secs(10), "the first lessons are learned").await;
    let (before, rejections_before) = (fleet.done(), fleet.throttled());
    let_pass(Duration::from_secs(20), "they are kept to").await;
    let (calls, rejections) = (fleet.done() - before, fleet.throttled() - rejections_before);
    let seconds = clock.now().since(Clock::START).secs();
    stranger.abort();
    fleet.stop().await;
    let served = upstream.stats().total.ok as f64 / (CAPACITY + RATE * seconds);
    println!("after 10 s {rejections} × 429 beside {calls} calls; {:.1} % of the account used", 100.0 * served);
    assert!(
        rejections as f64 <= 0.02 * calls as f64 && served >= 0.93,
        "{rejections} × 429, {calls} calls, {served} used"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_at_the_start() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    let upstream = upstream_with(&["requests=40/2s;start=0"], Dialect::SentinelHub).await;
    let fleet = Fleet::start(&nats, WORKERS, FOR_EVER, &job(&upstream)).await;
    until("calls are made", async || (fleet.done() >= 200).then_some(())).await;
    let rejections = fleet.throttled();
    fleet.stop().await;
    println!("{rejections} × 429");
    assert!(rejections <= 15, "{rejections} × 429");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refill_that_is_slower_than_it_says_shows_in_the_status() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    let upstream = upstream_with(&["requests=40/4s"], Dialect::SentinelHub).await;
    let fleet = Fleet::start(&nats, WORKERS, FOR_EVER, &job(&upstream)).await;
    let worker = Worker::connect(&nats, "hub").await;
    let learned = until("the rate is found", async || {
        worker.limit("per-two-seconds").await.learned.filter(|learned| learned.rate <= 0.6)
    })
    .await;
    fleet.stop().await;
    println!("half the rate is taken for {:.2}", learned.rate);
    assert!(learned.rate >= 0.35, "{learned:?}");
}

/// How a scheduler ends.
#[derive(Clone, Copy, Debug)]
enum Ended {
    Killed,
    Stopped,
}

async fn a_successor_knows_what_was_learned(ended: Ended) {
    let nats = nats::start().await;
    let mut process = Process::start(RAMPMETER, &nats, HUB).await;
    let upstream = upstream_with(&["requests=40/4s"], Dialect::SentinelHub).await;
    let fleet = Fleet::start(&nats, WORKERS, FOR_EVER, &job(&upstream)).await;
    let worker = Worker::connect(&nats, "hub").await;
    let learned = async || worker.status_of_leader().await.limits[0].learned.map_or(1.0, |learned| learned.rate);
    let_pass(COUNTED, "the first lessons are learned").await;
    let at_first = fleet.throttled();
    let_pass(LEARNING, "the rate is found").await;
    let before = learned().await;
    match ended {
        Ended::Killed => process.kill().await,
        Ended::Stopped => process.stop().await,
    }
    let _successor = Process::start(RAMPMETER, &nats, HUB).await;
    let (after, again) = (learned().await, fleet.throttled());
    let_pass(COUNTED, "as long again").await;
    let again = fleet.throttled() - again;
    fleet.stop().await;
    println!(
        "{ended:?}: {at_first} × 429 at first, {before:.3} of the rate; then {after:.3} of it, and {again} × 429 in as long"
    );
    assert!(before <= 0.7 && (after - before).abs() <= 0.05, "{ended:?}: {before}, then {after}");
    assert!(again * 2 <= at_first, "{ended:?}: {at_first} × 429 at first, then {again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_learned_outlives_a_scheduler_that_is_killed() {
    a_successor_knows_what_was_learned(Ended::Killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_learned_outlives_a_scheduler_that_is_stopped() {
    a_successor_knows_what_was_learned(Ended::Stopped).await;
}

#[tokio::test]
async fn a_call_costs_what_its_answer_says() {
    let resource = r#"
[[resource]]
name = "hub"
dialect = "sentinel-hub"
limit = [{ name = "units", unit = "processing-units", capacity = 100, period = "1h", margin = 0 }]
"#;
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, resource).await;
    let worker = Worker::connect(&nats, "hub").await;
    worker.ask(json!({"id": "a", "cost": {"processing-units": 10}})).await;
    let response = json!({"status": 200, "headers": {"x-processingunits-spent": "2.5"}});
    worker.settle(json!({"id": "a", "response": response})).await;
    let level = worker.limit("units").await.level;
    assert!((97.5..97.6).contains(&level), "{level}");
}
