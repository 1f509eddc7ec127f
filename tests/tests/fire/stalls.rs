//! The leader freezes and wakes after a while, as on a machine that swaps, or in a virtual machine
//! that moves.

use crate::prelude::*;

const CYCLES: Cycles = Cycles { usual: 50, long: 300 };
/// One stall in this many is long.
const ONE_IN: usize = 12;

fn stall(dice: &mut Rng, cycle: usize) -> Duration {
    let seconds = Duration::from_secs_f64;
    match (cycle % ONE_IN == ONE_IN - 1, is_long()) {
        (true, true) => dice.span(seconds(2.0)..seconds(10.0)),
        (true, false) => dice.span(seconds(1.5)..seconds(4.0)),
        (false, _) => dice.span(seconds(0.3)..seconds(0.8)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_wakes_again() {
    let run = Run::of("stalls::a_leader_that_wakes_again");
    let mut dice = run.dice();
    let (_nats, pair, mut drill) = pair_under_load(run).await;
    for cycle in 0..CYCLES.count() {
        let leader = pair.leader().await;
        let stalled_at = drill.now();
        pair.process(leader).pause();
        let_pass(stall(&mut dice, cycle), "the leader is frozen for so long").await;
        pair.process(leader).resume();
        drill.note("gap", drill.witness().longest_gap(stalled_at));
        drill.until_made(20).await;
    }
    let report = drill.end().await;
    report.check();
    assert!(report.longest("gap").secs() <= 15.0, "{report}");
}
