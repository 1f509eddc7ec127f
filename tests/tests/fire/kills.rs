//! Schedulers are killed, again and again, under load: not one token too many is admitted.

use crate::prelude::*;

const CYCLES: Cycles = Cycles { usual: 100, long: 1000 };
/// Kills come at any point between two writes to the store.
const BETWEEN_WRITES: std::ops::Range<Duration> = Duration::ZERO..Duration::from_millis(250);

/// The two exchange no time of the day, so one of them may be an hour fast.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_of_a_pair() {
    let run = Run::of("kills::the_leader_of_a_pair");
    let mut dice = run.dice();
    let nats = nats::start().await;
    let configuration = scheduler::configuration(nats.url(), &audited_hub());
    let mut pair = Pair::start_by([0, 3600], RAMPMETER, &configuration).await;
    let mut drill = Drill::begin(run, plan(nats.url())).await;
    for _ in 0..CYCLES.count() {
        let leader = pair.leader().await;
        let_pass(dice.span(BETWEEN_WRITES), "kills come at any point between two writes").await;
        let (epoch, killed_at) = (drill.witness().epoch(), drill.now());
        pair.process_mut(leader).kill().await;
        drill.note_successor(epoch, killed_at).await;
        pair.process_mut(leader).restart();
    }
    let report = drill.end().await;
    report.check();
    assert!(report.longest("successor heard").secs() <= 5.0, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_one() {
    let run = Run::of("kills::the_only_one");
    let mut dice = run.dice();
    let nats = nats::start().await;
    let mut process = Process::start(RAMPMETER, &nats, &audited_hub()).await;
    let mut drill = Drill::begin(run, plan(nats.url())).await;
    for _ in 0..CYCLES.count() {
        let_pass(dice.span(BETWEEN_WRITES), "kills come at any point between two writes").await;
        let (epoch, killed_at) = (drill.witness().epoch(), drill.now());
        process.kill().await;
        process.restart();
        drill.note_successor(epoch, killed_at).await;
    }
    let report = drill.end().await;
    report.check();
    assert!(report.longest("successor heard").secs() <= 10.0, "{report}");
}
