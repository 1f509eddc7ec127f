//! An upstream over HTTP that is slower than the configuration says. Virtual time holds what a
//! scheduler learns to bounds (`simulator/tests/behaviour/feedback.rs`); here it shows in the status.

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refill_that_is_slower_than_it_says_shows_in_the_status() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    let upstream = upstream_with(&["requests=40/4s"], Dialect::SentinelHub).await;
    let job = Job { resource: "hub", api: Api::new(&upstream), cost: BTreeMap::new() };
    // They make more calls than this test has time for.
    let fleet = Fleet::start(&nats, 50, 1_000_000, &job).await;
    let worker = Worker::connect(&nats, "hub").await;
    until("the rate is found", async || {
        worker.limit("per-two-seconds").await.learned.filter(|learned| (0.35..=0.6).contains(&learned.rate))
    })
    .await;
    fleet.stop().await;
}
