//! Fleets of SDK workers against a real upstream, while everything around them fails, restarts and
//! grows.

use crate::prelude::*;
use rampmeter_tests::fleet::Job;

/// A hundred requests a second. The margin covers pauses of half a second on a busy machine.
const HUB: &str = r#"
[[resource]]
name = "hub"
dialect = "sentinel-hub"
limit = [{ name = "per-second", capacity = 100, period = "1s", margin = 50 }]
"#;
const POLICY: &str = "requests=100/1s";

/// More calls than any of these tests has time for.
const FOR_EVER: usize = 1_000_000;

fn job(upstream: &Upstream) -> Job {
    Job { resource: "hub", asking: Asking::InLine, api: Api::new(upstream), cost: BTreeMap::new() }
}

/// Waits until the fleet has made `more` calls.
async fn until_done(fleet: &Fleet, more: u64) {
    let before = fleet.done();
    until("calls are made", async || (fleet.done() >= before + more).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_429_is_settled_and_asked_anew() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    let stricter = upstream(&["requests=5/1s"]).await;
    let mut fleet = Fleet::start(&nats, 10, 2, &job(&stricter)).await;
    within("all calls are made", fleet.finish()).await;
    let total = stricter.stats().total;
    assert_eq!((fleet.done(), total.ok), (20, 20));
    assert!(total.rate_limited > 0, "the upstream was to be stricter than configured");
    assert_eq!(fleet.throttled(), total.rate_limited);
    let worker = Worker::connect(&nats, "hub").await;
    until("every 429 is counted", async || {
        (worker.status().await.counters.upstream_429 == total.rate_limited).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_scheduler_under_load_is_no_error_and_no_429() {
    let nats = nats::start().await;
    let mut process = Process::start(RAMPMETER, &nats, HUB).await;
    let upstream = upstream(&[POLICY]).await;
    let fleet = Fleet::start(&nats, 100, FOR_EVER, &job(&upstream)).await;
    until_done(&fleet, 200).await;

    process.terminate();
    assert!(process.ended().await.success(), "{}", process.log());
    let_pass(Duration::from_secs(2), "a restart takes as long as that").await;
    let process = Process::start(RAMPMETER, &nats, HUB).await;

    until_done(&fleet, 200).await;
    assert_eq!(upstream.stats().total.rate_limited, 0);
    fleet.stop().await;
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_nats_under_load_is_no_error_and_no_429() {
    let mut nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    let upstream = upstream(&[POLICY]).await;
    let fleet = Fleet::start(&nats, 100, FOR_EVER, &job(&upstream)).await;
    until_done(&fleet, 200).await;
    for pause in [Duration::ZERO, Duration::from_secs(3)] {
        nats.kill().await.unwrap();
        let_pass(pause, "workers are without a server for so long").await;
        nats.restart().await.unwrap();
        until_done(&fleet, 200).await;
    }
    assert_eq!(upstream.stats().total.rate_limited, 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scaling_from_ten_workers_to_two_thousand_and_back_is_no_429() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, HUB).await;
    let upstream = upstream(&[POLICY]).await;
    let job = job(&upstream);
    let ten = Fleet::start(&nats, 10, FOR_EVER, &job).await;
    until_done(&ten, 150).await;
    let many = Fleet::start(&nats, 1990, FOR_EVER, &job).await;
    until_queued(&nats, |queued| queued > 1500).await;
    until_done(&many, 300).await;
    many.stop().await;
    until_queued(&nats, |queued| queued <= 10).await;
    until_done(&ten, 150).await;
    assert_eq!(upstream.stats().total.rate_limited, 0);
    ten.stop().await;
}

async fn until_queued(nats: &Server, is_reached: fn(u64) -> bool) {
    let worker = Worker::connect(nats, "hub").await;
    until("the queue is so long", async || is_reached(worker.status().await.classes[0].queued).then_some(())).await;
}
