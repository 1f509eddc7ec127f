//! Calls in flight keep their places as long as they last, whichever process restarts, and no
//! longer.

use crate::PERMIT_HOLDER;
use crate::prelude::*;
use rampmeter_tests::holder::holder;

/// How long a call without a report may be in flight.
const TIME_TO_LIVE: Duration = Duration::from_secs(1);

/// A resource with a limit of one call in flight.
fn one() -> String {
    calls_in_flight(1, TIME_TO_LIVE)
}

fn resource(client: &Client) -> Resource {
    client.resource("api").unwrap()
}

/// When the next call may start, on this clock.
async fn next(worker: &Worker, clock: &Clock) -> Time {
    let next = worker.ask(json!({"mode": "wait"})).await;
    assert_eq!(next["status"], "granted", "{next}");
    clock.now()
}

/// The call lasts three times as long as its limit keeps a call without a report.
#[tokio::test]
async fn a_call_that_lasts_keeps_its_place_and_gives_it_back() {
    let (nats, _running, worker) = Worker::beside_scheduler(&one()).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let call = resource(&client).acquire(1).await.unwrap().begin();
    let clock = Clock::start();
    let over = async {
        let_pass(3 * TIME_TO_LIVE, "a call is in flight").await;
        drop(call);
        clock.now()
    };
    let (over, start) = tokio::join!(over, next(&worker, &clock));
    assert!(start >= over && client.stats().unrenewed == 0, "no other call got in meanwhile");
    // The place of the call is free when its time to live is over.
    next(&worker, &Clock::start()).await;
}

/// The successor does not know the call. It counts it as new, and keeps its place while it lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_outlasts_the_scheduler_that_let_it_in() {
    let nats = nats::start().await;
    let mut first = Process::start(RAMPMETER, &nats, &one()).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let call = resource(&client).acquire(1).await.unwrap().begin();
    first.kill().await;
    let _second = scheduler::start(&nats, &one()).await;
    let worker = Worker::connect(&nats, "api").await;
    let in_flight = async || worker.limit("in-flight").await.level;
    // The predecessor may have renewed the lease long after its last checkpoint.
    let_pass(6 * TIME_TO_LIVE, "a call is in flight").await;
    assert_eq!(in_flight().await, 0.0, "it is counted by its name, and nothing else is");
    assert_eq!(worker.ask(json!({"mode": "allow"})).await["code"], "not_in_time");
    drop(call);
    until("its place is free", async || (in_flight().await == 1.0).then_some(())).await;
    assert_eq!(client.stats().unrenewed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_of_a_killed_process_is_free_after_time_to_live() {
    undisturbed(is_free_in_time).await;
}

async fn is_free_in_time() -> Result<(), String> {
    let (nats, _running, worker) = Worker::beside_scheduler(&one()).await;
    let mut holder = holder(PERMIT_HOLDER, nats.url()).await;
    let_pass(3 * TIME_TO_LIVE, "the permit is held").await;
    assert_eq!(worker.ask(json!({"mode": "allow"})).await["code"], "not_in_time", "it is renewed");
    holder.start_kill().unwrap();
    let clock = Clock::start();
    let waited = next(&worker, &clock).await.since(Clock::START);
    in_time("a place", waited, Span::from(TIME_TO_LIVE) + Span::from_secs(1))
}
