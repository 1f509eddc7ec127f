//! A leader that dies every ten seconds costs hardly any of the rate.

use crate::prelude::*;

const CYCLES: Cycles = Cycles { usual: 3, long: 60 };
const BETWEEN: Duration = Duration::from_secs(10);
const MIN_DELIVERED: f64 = 0.96;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_every_ten_seconds() {
    undisturbed(async || beside_kills().await.shows(|report| report.delivered() >= MIN_DELIVERED)).await;
}

async fn beside_kills() -> Report {
    let run = Run::of("rate::a_kill_every_ten_seconds");
    let (_nats, mut pair, mut drill) = pair_under_load(run).await;
    for _ in 0..CYCLES.count() {
        let leader = pair.leader().await;
        let (epoch, killed_at) = (drill.witness().epoch(), drill.now());
        pair.process_mut(leader).kill().await;
        drill.note_successor(epoch, killed_at).await;
        drill.note("gap", drill.witness().longest_gap(killed_at));
        pair.process_mut(leader).restart();
        let_pass(BETWEEN, "the rate is to be delivered in between").await;
    }
    let report = drill.end().await;
    report.check();
    report
}
