//! Three nodes: the node that leads the store dies or freezes, and so do schedulers on top of it.

use crate::prelude::*;
use rampmeter_tests::drill::{QUICK, hub};

const NODE_CYCLES: Cycles = Cycles { usual: 1, long: 50 };
const BRIDGED_CYCLES: Cycles = Cycles { usual: 1, long: 20 };
const SCHEDULER_CYCLES: Cycles = Cycles { usual: 4, long: 100 };

/// The store is silent for 4 to 8 s after the node that leads it has gone.
const ELECTION: Duration = Duration::from_secs(8);
/// The leader has gone on with its standby by then.
const INTO_ELECTION: Duration = Duration::from_millis(1500);
/// The longest time without a permit while the standby holds the checkpoints, beside other tests.
const LONGEST_GAP: Span = Span::from_secs(2);
/// A node that freezes for less time is still a member when it wakes.
const FREEZE: Duration = Duration::from_secs(3);

struct Stage {
    cluster: Cluster,
    pair: Pair,
    drill: Drill,
}

impl Stage {
    async fn start(run: Run) -> Self {
        Stage::start_with(run, "").await
    }

    /// Starts a stage with these keys of the resource.
    async fn start_with(run: Run, keys: &str) -> Self {
        Stage::of(run, &audited_hub().replacen("name = \"hub\"\n", &format!("name = \"hub\"\n{keys}"), 1)).await
    }

    async fn of(run: Run, resource: &str) -> Self {
        let cluster = Cluster::start().await;
        let [first, second, third] = cluster.urls().map(str::to_owned);
        let configurations = [first, second].map(|url| {
            let single = scheduler::configuration(&url, resource);
            single.replace("[http]", &format!("replicas = {NODES}\n[http]"))
        });
        let pair = Pair::start(RAMPMETER, [&configurations[0], &configurations[1]]).await;
        let drill = Drill::begin(run, plan(&third)).await;
        Stage { cluster, pair, drill }
    }

    async fn check(self) {
        self.drill.end().await.check();
    }
}

/// Kills the node that leads the store, once in each cycle. The resource has these keys.
async fn leading_nodes_die(run: Run, keys: &str, cycles: Cycles) {
    let mut stage = Stage::start_with(run, keys).await;
    for _ in 0..cycles.count() {
        let leads = stage.cluster.leader_of("rampmeter").await;
        let killed_at = stage.drill.now();
        stage.cluster.node(leads).kill().await.unwrap();
        let_pass(ELECTION, "the others elect a leader").await;
        stage.cluster.node(leads).restart().await.unwrap();
        stage.cluster.until_ready().await;
        stage.drill.until_made(100).await;
        let gap = stage.drill.witness().longest_gap(killed_at);
        stage.drill.note("gap", gap);
        assert!(gap <= LONGEST_GAP, "no permit for {gap}");
    }
    stage.check().await;
}

drills! { "cluster"
    the_node_that_leads_the_store_dies(run): leading_nodes_die(run, "", NODE_CYCLES);
    a_long_reservation_through_an_election(run): leading_nodes_die(run, "reservation = \"10s\"\n", BRIDGED_CYCLES);
    a_scheduler_dies_while_the_store_is_silent(run): scheduler_dies_in_silence(run, Duration::ZERO);
    a_scheduler_dies_that_went_on_with_its_standby(run): scheduler_dies_in_silence(run, INTO_ELECTION);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_that_leads_the_store_freezes() {
    let mut stage = Stage::start(Run::of("cluster::the_node_that_leads_the_store_freezes")).await;
    for _ in 0..NODE_CYCLES.count() {
        let leads = stage.cluster.leader_of("rampmeter").await;
        let frozen_at = stage.drill.now();
        stage.cluster.node(leads).pause().unwrap();
        let_pass(FREEZE, "the node is frozen for so long").await;
        stage.cluster.node(leads).resume().unwrap();
        stage.cluster.until_ready().await;
        stage.drill.until_made(100).await;
        stage.drill.note("gap", stage.drill.witness().longest_gap(frozen_at));
    }
    stage.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedulers_die() {
    let mut stage = Stage::start(Run::of("cluster::schedulers_die")).await;
    for _ in 0..SCHEDULER_CYCLES.count() {
        let leader = stage.pair.leader().await;
        let (epoch, killed_at) = (stage.drill.witness().epoch(), stage.drill.now());
        stage.pair.process_mut(leader).kill().await;
        stage.drill.note_successor(epoch, killed_at).await;
        stage.pair.process_mut(leader).restart();
    }
    stage.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedulers_freeze() {
    let run = Run::of("cluster::schedulers_freeze");
    let mut dice = run.dice();
    let mut stage = Stage::start(run).await;
    for _ in 0..SCHEDULER_CYCLES.count() {
        let leader = stage.pair.leader().await;
        let frozen_at = stage.drill.now();
        stage.pair.process(leader).pause();
        let stall = dice.span(Duration::from_millis(300)..Duration::from_secs(3));
        let_pass(stall, "the leader is frozen for so long").await;
        stage.pair.process(leader).resume();
        stage.drill.note("gap", stage.drill.witness().longest_gap(frozen_at));
        stage.drill.until_made(20).await;
    }
    stage.check().await;
}

/// With the leader and all its standbys, what they held beyond the store is lost. Whoever comes next waits
/// until nobody can go on with that any more, and begins without stock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_schedulers_die_that_went_on_without_the_store() {
    let run = Run::of("cluster::all_schedulers_die_that_went_on_without_the_store");
    let mut stage = Stage::of(run, &hub(QUICK)).await;
    let (leader, leads) = (stage.pair.leader().await, stage.cluster.leader_of("rampmeter").await);
    let (epoch, killed_at) = (stage.drill.witness().epoch(), stage.drill.now());
    stage.cluster.node(leads).kill().await.unwrap();
    let_pass(INTO_ELECTION, "the leader goes on with its standby").await;
    for scheduler in [leader, leader.other()] {
        stage.pair.process_mut(scheduler).kill().await;
        stage.pair.process_mut(scheduler).restart();
    }
    stage.cluster.node(leads).restart().await.unwrap();
    stage.cluster.until_ready().await;
    stage.drill.note_successor(epoch, killed_at).await;
    stage.drill.until_made(100).await;
    stage.drill.break_off().await.check();
}

/// A scheduler dies so long after the node that leads the store. Its successor has to wait for the
/// store, and then begins at the latest checkpoint that it holds itself, or that the store has.
async fn scheduler_dies_in_silence(run: Run, after: Duration) {
    let mut stage = Stage::start(run).await;
    for _ in 0..NODE_CYCLES.count() {
        let leader = stage.pair.leader().await;
        let leads = stage.cluster.leader_of("rampmeter").await;
        let (epoch, killed_at) = (stage.drill.witness().epoch(), stage.drill.now());
        stage.cluster.node(leads).kill().await.unwrap();
        let_pass(after, "the leader goes on with its standby").await;
        stage.pair.process_mut(leader).kill().await;
        stage.drill.note_successor(epoch, killed_at).await;
        stage.cluster.node(leads).restart().await.unwrap();
        stage.cluster.until_ready().await;
        stage.pair.process_mut(leader).restart();
    }
    stage.check().await;
}
