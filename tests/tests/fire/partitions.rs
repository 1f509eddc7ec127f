//! Either the leader or the workers are cut off from NATS, and the standby is not. One side goes
//! on, and the other does no harm when the network heals.

use crate::prelude::*;
use rampmeter_tests::pair::Member;
use rampmeter_tests::proxy::{Line, Proxy};

/// How the leader is cut off.
#[derive(Clone, Copy, Debug)]
enum Partition {
    /// Connections end, and there are no new ones.
    Cut,
    /// The states of the two directions, first that to the server.
    Lines(Line, Line),
}

impl Partition {
    fn begin(self, proxy: &Proxy) {
        match self {
            Partition::Cut => proxy.cut(),
            Partition::Lines(out, back) => proxy.set(out, back),
        }
    }
}

const CYCLES: Cycles = Cycles { usual: 2, long: 30 };
const CUT_OFF: std::ops::Range<Duration> = Duration::from_millis(300)..Duration::from_secs(2);

/// Cuts the leader off until its successor grants, and heals the network. Then only the successor's
/// epoch may be used.
async fn check(run: Run, partition: Partition) {
    let nats = nats::start().await;
    let proxies = [Proxy::start(nats.port()).await, Proxy::start(nats.port()).await];
    let configurations = [0, 1].map(|member| scheduler::configuration(&proxies[member].url(), &audited_hub()));
    let pair = Pair::start(RAMPMETER, [&configurations[0], &configurations[1]]).await;
    let mut drill = Drill::begin(run, plan(nats.url())).await;
    for _ in 0..CYCLES.count() {
        let leader = pair.leader().await;
        let proxy = &proxies[usize::from(leader != Member::FIRST)];
        let (epoch, cut_at) = (drill.witness().epoch(), drill.now());
        partition.begin(proxy);
        drill.note_successor(epoch, cut_at).await;
        drill.until_made(100).await;
        proxy.heal();
        assert_eq!(pair.leader().await, leader.other(), "the former leader stands by");
        let (successor, stands_by) = (drill.witness().epoch(), drill.now());
        drill.until_made(100).await;
        assert_eq!(drill.witness().answers_of_before(successor, stands_by), 0, "the standby answers");
    }
    let report = drill.end().await;
    report.check();
    assert!(report.longest("successor grants").secs() <= 25.0, "{report}");
}

drills! { "partitions"
    a_cut(run): check(run, Partition::Cut);
    everything_is_held(run): check(run, Partition::Lines(Line::Held, Line::Held));
    the_leader_is_not_heard(run): check(run, Partition::Lines(Line::Held, Line::Open));
    the_leader_hears_nothing(run): check(run, Partition::Lines(Line::Open, Line::Held));
    what_the_leader_says_is_lost(run): check(run, Partition::Lines(Line::Lost, Line::Open));
}

/// Late answers must not add up to a burst beside what the buckets refill meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_cut_off() {
    let (nats, _running) = scheduler::alone(&audited_hub()).await;
    let proxy = Proxy::start(nats.port()).await;
    let through_the_proxy = Plan { workers_url: proxy.url(), ..plan(nats.url()) };
    let run = Run::of("partitions::workers_are_cut_off");
    let mut dice = run.dice();
    let mut drill = Drill::begin(run, through_the_proxy).await;
    let (open, slow) = (Line::Open, Line::Slow(Duration::from_millis(200)));
    let lines = [(Line::Held, Line::Held), (Line::Held, open), (open, Line::Held), (open, Line::Lost), (slow, slow)];
    let partitions = lines.map(|(out, back)| Partition::Lines(out, back)).into_iter().chain([Partition::Cut]);
    for partition in (0..CYCLES.count()).flat_map(|_| partitions.clone()) {
        partition.begin(&proxy);
        let_pass(dice.span(CUT_OFF), "workers are cut off for so long").await;
        proxy.heal();
        let healed_at = drill.now();
        drill.until_made(50).await;
        drill.note("fifty calls", drill.now().since(healed_at));
    }
    drill.end().await.check();
}
