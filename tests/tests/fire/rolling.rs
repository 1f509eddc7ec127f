//! Schedulers are replaced one after the other, as in an upgrade, and no worker notices.

use crate::prelude::*;
use rampmeter_tests::drill::{Report, plan};
use std::sync::atomic::{AtomicBool, AtomicUsize};

const CYCLES: Cycles = Cycles { usual: 20, long: 200 };
/// Calls between two restarts.
const BETWEEN: usize = 100;
/// Each restart costs some hundredths of a second, and there is one in each second.
const MIN_DELIVERED: f64 = 0.985;
const LONGEST_GAP: Span = Span::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restarts() {
    let unnoticed = |report: &Report| report.delivered() >= MIN_DELIVERED && report.longest("gap") <= LONGEST_GAP;
    undisturbed(async || beside_restarts().await.shows(unnoticed)).await;
}

async fn beside_restarts() -> Report {
    let run = Run::of("rolling::rolling_restarts");
    let nats = nats::start().await;
    let configuration = scheduler::configuration(nats.url(), &audited_hub());
    let mut pair = Pair::start(RAMPMETER, [&configuration; 2]).await;
    let mut drill = Drill::begin(run, plan(nats.url())).await;
    for _ in 0..CYCLES.count() {
        let leader = pair.leader().await;
        let (epoch, asked_at) = (drill.witness().epoch(), drill.now());
        let process = pair.process_mut(leader);
        process.terminate();
        assert!(process.ended().await.success(), "{}", process.log());
        drill.note_successor(epoch, asked_at).await;
        drill.until_made(BETWEEN).await;
        drill.note("gap", drill.witness().longest_gap(asked_at));
        pair.process_mut(leader).restart();
    }
    let report = drill.end().await;
    report.check();
    report
}

/// A lost settle would hold its place beyond the end of the test.
const TIME_TO_LIVE: Duration = Duration::from_secs(3600);
const PLACES: usize = 16;
/// The shortest and the longest call, in milliseconds.
const CALLS: (u64, u64) = (50, 2000);
/// Calls that end between two restarts: some of them while nobody leads.
const ENDED: usize = 32;

/// Makes calls one after the other until `stop`.
async fn calls(client: Client, seed: u64, stop: Arc<AtomicBool>, ended: Arc<AtomicUsize>) {
    let (resource, mut length) = (client.resource("hub").unwrap(), seed);
    while !stop.load(Ordering::Relaxed) {
        let permit = resource.acquire(Cost::requests(1)).await.unwrap().begin();
        length = CALLS.0 + (length * 7919 + 131) % (CALLS.1 - CALLS.0);
        let_pass(Duration::from_millis(length), "a call takes its time").await;
        drop(permit);
        ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Every call ends once, and its place is free again, whichever scheduler leads at that time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_overs_keep_no_place() {
    Run::of("rolling::hand_overs_keep_no_place").tell();
    let nats = nats::start().await;
    let hub = calls_in_flight(PLACES, TIME_TO_LIVE).replace("api", "hub");
    let configuration = scheduler::configuration(nats.url(), &hub);
    let mut pair = Pair::start(RAMPMETER, [&configuration; 2]).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let (stop, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let workers = (0..2 * PLACES as u64)
        .map(|seed| tokio::spawn(calls(client.clone(), seed, Arc::clone(&stop), Arc::clone(&ended))))
        .collect::<Vec<_>>();
    for cycle in 1..=CYCLES.count() {
        until("calls end", async || (ended.load(Ordering::Relaxed) >= cycle * ENDED).then_some(())).await;
        let leader = pair.leader().await;
        let process = pair.process_mut(leader);
        process.terminate();
        assert!(process.ended().await.success(), "{}", process.log());
        process.restart();
    }
    stop.store(true, Ordering::Relaxed);
    within("all calls end", join_all(workers)).await.into_iter().for_each(Result::unwrap);
    client.close().await;
    let worker = Worker::connect(&nats, "hub").await;
    let free = async || worker.status_of_leader().await.limits[0].level;
    until("the last settles arrive", async || (free().await == PLACES as f64).then_some(())).await;
}
