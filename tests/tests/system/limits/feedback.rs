//! An upstream over HTTP that is slower than the configuration says. Virtual time holds what a
//! scheduler learns to bounds (`simulator/tests/behaviour/feedback.rs`), and so does real time
//! (`tests/tests/real_time/upstreams.rs`); here it outlives the scheduler.

#![allow(clippy::print_stdout, reason = "a failure, or --nocapture, shows what was measured")]

use crate::prelude::*;
use rampmeter_tests::fleet::Job;

/// Twenty requests a second.
const HUB: &str = r#"
[[resource]]
name = "hub"
dialect = "sentinel-hub"
start = "unproven"
limit = [{ name = "per-two-seconds", capacity = 40, period = "2s" }]
"#;

/// The time over which rejections are counted, first and again.
const COUNTED: Duration = Duration::from_secs(8);
/// The further time in which the scheduler learns most of a loss of rate.
const LEARNING: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_learned_outlives_a_scheduler_that_is_killed() {
    let nats = nats::start().await;
    let mut process = Process::start(RAMPMETER, &nats, HUB).await;
    let upstream = upstream_with(&["requests=40/4s"], Dialect::SentinelHub).await;
    let job = Job { resource: "hub", asking: Asking::InLine, api: Api::new(&upstream), cost: BTreeMap::new() };
    // They make more calls than this test has time for.
    let fleet = Fleet::start(&nats, 50, 1_000_000, &job).await;
    let worker = Worker::connect(&nats, "hub").await;
    let learned = async || worker.status_of_leader().await.limits[0].learned.map_or(1.0, |learned| learned.rate);
    let_pass(COUNTED, "the first lessons are learned").await;
    let at_first = fleet.throttled();
    let_pass(LEARNING, "the rate is found").await;
    let before = learned().await;
    process.kill().await;
    let _successor = Process::start(RAMPMETER, &nats, HUB).await;
    let (after, again) = (learned().await, fleet.throttled());
    let_pass(COUNTED, "as long again").await;
    let again = fleet.throttled() - again;
    fleet.stop().await;
    println!("{at_first} × 429, {before:.3} of the rate; then {after:.3} of it, and {again} × 429 in as long");
    assert!(before <= 0.7 && (after - before).abs() <= 0.05, "{before}, then {after}");
    assert!(again * 2 <= at_first, "{at_first} × 429 at first, then {again}");
}
