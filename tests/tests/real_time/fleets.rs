//! The two fleets by which Rampmeter is measured, in real time against a real upstream. They take
//! minutes, almost all of it waiting. Long runs make all of their calls: `RAMPMETER_FIRE=long`; in
//! a usual run workers call less often.
//!
//! An ideal scheduler takes the time in which all calls beyond the first burst are refilled.

#![allow(clippy::print_stdout, reason = "a failure, or --nocapture, shows what was measured")]

use rampmeter_tests::fleet::Job;
use rampmeter_tests::prelude::*;

const RESOURCE: &str = r#"
[[resource]]
name = "sentinel-hub"
limit = [
    { name = "requests", capacity = 50, period = "10s" },
    { name = "processing-units", unit = "processing-units", capacity = 200, period = "10s" },
]
"#;

async fn check(workers: usize, calls: usize, at_most: Span) {
    undisturbed(async || is_in_time(workers, calls, at_most).await).await;
}

/// 50 requests and 200 processing units in 10 s, two units a call.
async fn is_in_time(workers: usize, calls: usize, at_most: Span) -> Result<(), String> {
    let (nats, _running) = scheduler::alone(RESOURCE).await;
    let upstream = upstream(&["requests=50/10s", "processing-units=200/10s"]).await;
    let cost = BTreeMap::from([("processing-units", 2.0)]);
    let job = Job { resource: "sentinel-hub", api: Api::new(&upstream), cost };
    let clock = Clock::start();

    Fleet::start(&nats, workers, calls, &job).await.finish().await;

    let took = clock.now().since(Clock::START);
    println!("{workers} workers × {calls} calls took {took}");
    let total = upstream.stats().total;
    assert_eq!((total.ok, total.bad), ((workers * calls) as u64, 0));
    match total.rate_limited == 0 && took <= at_most {
        true => Ok(()),
        false => Err(format!("{} × 429 in {took}, at most {at_most}", total.rate_limited)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_workers() {
    let (calls, at_most) = if is_long() { (5, 190_500) } else { (1, 30_500) };
    check(200, calls, Span::from_millis(at_most)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_workers() {
    let (calls, at_most) = if is_long() { (10, 90_500) } else { (4, 30_500) };
    check(50, calls, Span::from_millis(at_most)).await;
}
