//! Schedulers are replaced one after the other, as in an upgrade, and no worker notices.

use crate::prelude::*;
use rampmeter_tests::drill::{Report, plan};

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
