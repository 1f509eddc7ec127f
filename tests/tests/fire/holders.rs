//! Workers die while they hold permits for calls in flight. Their places are free again after the
//! time to live.

use crate::PERMIT_HOLDER;
use crate::prelude::*;
use rampmeter_tests::holder::holder;

const HOLDERS: Cycles = Cycles { usual: 10, long: 1000 };
/// Processes that start at once.
const AT_ONCE: usize = 50;

/// Long enough to start them all.
fn time_to_live() -> Duration {
    Duration::from_secs(if is_long() { 90 } else { 4 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_in_flight_of_killed_workers_are_free_again() {
    undisturbed(comes_back).await;
}

#[allow(clippy::print_stdout, reason = "what was measured, with --nocapture")]
async fn comes_back() -> Result<(), String> {
    let nats = nats::start().await;
    let scheduler = Process::start(RAMPMETER, &nats, &calls_in_flight(HOLDERS.count(), time_to_live())).await;
    let mut holders = Vec::new();
    while holders.len() < HOLDERS.count() {
        let more = AT_ONCE.min(HOLDERS.count() - holders.len());
        holders.extend(join_all((0..more).map(|_| holder(PERMIT_HOLDER, nats.url()))).await);
    }
    let worker = Worker::connect(&nats, "api").await;
    assert_eq!(worker.ask(json!({ "mode": "allow" })).await["code"], "not_in_time", "all are held");
    for holder in &mut holders {
        holder.start_kill().unwrap();
    }
    let clock = Clock::start();
    let next = vec![json!({ "mode": "wait", "progress": true }); HOLDERS.count()];
    let (mut answers, mut granted) = (worker.send("permit", json!(next).to_string()).await, 0);
    while granted < HOLDERS.count() {
        let answer = answers.body().await;
        match answer["status"].as_str() {
            Some("queued") => {}
            Some("granted") => granted += 1,
            Some(_) | None => return Err(answer.to_string()),
        }
    }
    let waited = clock.now().since(Clock::START);
    println!("{} killed workers' permits were granted again within {waited}", HOLDERS.count());
    scheduler.stop().await;
    in_time("all of it", waited, Span::from(time_to_live()) + Span::from_secs(1))
}
