//! Schedulers are replaced one after the other, as in an upgrade, and no worker notices.

use crate::prelude::*;

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
    let (_nats, mut pair, mut drill) = pair_under_load(run).await;
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
