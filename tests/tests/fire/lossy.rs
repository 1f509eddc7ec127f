//! Messages between workers and scheduler are lost, doubled and reordered: no permit is charged
//! twice.

use crate::prelude::*;
use rampmeter_tests::drill::Charges;
use rampmeter_tests::relay::{Faults, Relay};

/// Calls in all. A lost request is repeated only after seconds, so many workers are needed.
const CALLS: Cycles = Cycles { usual: 500, long: 10_000 };
const WORKERS: usize = 200;

async fn check(run: Run, lost: u64) {
    let (nats, _running) = scheduler::alone(&audited_hub()).await;
    let faults = Faults { lost, doubled: 50, late: 30 };
    let relay = Relay::start(nats.url(), "lossy", "rampmeter", faults, run.dice()).await;
    let lossy = Plan { prefix: "lossy", workers: WORKERS, warm: 100, ..plan(nats.url()) };
    let drill = Drill::begin(run, lossy).await;
    for _ in 0..CALLS.count() / 100 {
        drill.until_made(100).await;
    }
    relay.heal();
    let report = drill.end().await;
    report.check();
    // A permit that lapsed on its way is returned; what its bucket spilled meanwhile is lost.
    assert!(matches!(report.charges(), Some(Charges { lost: 0, .. })), "{report}");
    let counters = Worker::connect(&nats, "hub").await.status().await.counters;
    assert!(
        counters.granted - counters.returned >= report.made() as u64,
        "every call has a permit of its own\n{report}"
    );
}

drills! { "lossy"
    one_in_a_hundred(run): check(run, 1);
    one_in_ten(run): check(run, 10);
    one_in_three(run): check(run, 30);
}
