//! Delayed jobs whose workers, scheduler and servers are killed. All jobs are done in order, and no
//! answer is 429.

use crate::JOBS_WORKER;
use crate::prelude::*;
use rampmeter_tests::guilds::{LEASE, name};
use rampmeter_tests::job_run::{JobsWorker, Size, discord_under_fire};
use std::ops::Range;

/// Ten roles in ten seconds on each of fifty servers, five thousand in all. A usual run has fewer,
/// in one second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord() {
    let (period, guilds, jobs, schedulers) =
        if is_long() { (Duration::from_secs(10), 50, 100, 2) } else { (Duration::from_secs(1), 10, 20, 12) };
    let pauses = (Duration::from_millis(300), Duration::from_secs(2));
    let size = Size { guilds, jobs, capacity: 10, period, pauses, schedulers };
    discord_under_fire(&Run::of("jobs::discord"), RAMPMETER, JOBS_WORKER, size).await;
}

const GROUPS: Cycles = Cycles { usual: 300, long: 5000 };

/// A group costs a message in each stream and nothing else, so thousands of groups get their turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout, reason = "a run tells what it measured")]
async fn many_groups() {
    let (nats, groups) = (nats::start().await, GROUPS.count() as u32);
    let _scheduler = Process::start(RAMPMETER, &nats, &guilds::discord(100, Duration::from_secs(1))).await;
    let upstream = Guilds::start(100, Duration::from_secs(1)).await;
    let queue = guilds::queue(nats.url()).await;
    let clock = Clock::start();
    publish(&queue, groups, 0..2).await;
    let published = clock.now();
    let _workers = [(); 2].map(|()| JobsWorker::start(JOBS_WORKER, nats.url(), &upstream, &[]));
    let all = 2 * groups as usize;
    while upstream.done() < all {
        let before = upstream.done();
        until("more jobs are done", async || (upstream.done() > before).then_some(())).await;
    }
    let done = clock.now();
    until("the queue is empty", async || queue.status().await.unwrap().is_empty().then_some(())).await;
    assert_eq!(upstream.check(groups, 2), 0, "no worker died, and no job ran twice");
    let took = (published.since(Clock::START), done.since(published));
    println!("{groups} groups: {all} jobs published in {}, done in {}", took.0, took.1);
}

const NODE_DEATHS: Cycles = Cycles { usual: 1, long: 20 };
const GUILDS: u32 = 5;
/// New jobs for each guild, before each death and after it.
const MORE: u32 = 5;

/// Publishes these jobs for this many guilds.
async fn publish(queue: &Queue, guilds: u32, jobs: Range<u32>) {
    for job in jobs {
        for guild in 0..guilds {
            queue.publish(Job::new(name(guild), job.to_string()).id(format!("{guild}-{job}"))).await.unwrap();
        }
    }
}

/// In a cluster of three, the node that leads the jobs dies while jobs are published and run. A
/// worker dies with it each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout, reason = "a run tells what it measured")]
async fn the_node_that_leads_the_jobs_dies() {
    Run::of("jobs::the_node_that_leads_the_jobs_dies").tell();
    let mut cluster = Cluster::start().await;
    let urls = cluster.urls().join(",");
    let configuration = scheduler::configuration(&urls, &guilds::discord(100, Duration::from_secs(1)));
    let configuration = configuration.replace("[http]", &format!("replicas = {NODES}\n[http]"));
    let _scheduler = Process::start_with(RAMPMETER, &configuration, &[]).await;
    let upstream = Guilds::start(100, Duration::from_secs(1)).await;
    let queue = Queue::builder().replicas(NODES).lease(LEASE).create(&urls, "roles").await.unwrap();
    let mut workers = [(); 2].map(|()| JobsWorker::start(JOBS_WORKER, &urls, &upstream, &[]));
    let mut published = 0;
    for death in 0..NODE_DEATHS.count() {
        publish(&queue, GUILDS, published..published + MORE).await;
        let leads = cluster.leader_of_stream("rampmeter-jobs-roles").await;
        cluster.node(leads).kill().await.unwrap();
        let count = workers.len();
        workers[death % count].replace().await;
        publish(&queue, GUILDS, published + MORE..published + 2 * MORE).await;
        published += 2 * MORE;
        let all = (GUILDS * published) as usize;
        until("the others do all jobs", async || (upstream.done() == all).then_some(())).await;
        cluster.node(leads).restart().await.unwrap();
        cluster.until_ready().await;
    }
    until("the queue is empty", async || queue.status().await.unwrap().is_empty().then_some(())).await;
    let twice = upstream.check(GUILDS, published);
    println!("{} jobs, {} deaths: all done, in order, {twice} twice, 0 × 429", GUILDS * published, NODE_DEATHS.count());
}
