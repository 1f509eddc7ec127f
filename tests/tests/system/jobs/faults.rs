//! Delayed jobs while workers, schedulers and servers die.

use super::{SECOND, Stage};
use crate::JOBS_WORKER;
use crate::prelude::*;
use rampmeter_tests::guilds::name;
use rampmeter_tests::job_run::JobsWorker;

async fn publish(queue: &Queue, guilds: u32, jobs: u32) {
    for number in 0..jobs {
        for guild in 0..guilds {
            queue.publish(Job::new(name(guild), number.to_string())).await.unwrap();
        }
    }
}

async fn until_empty(queue: &Queue) {
    until("the queue is empty", async || queue.status().await.unwrap().is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_job_whose_worker_is_killed_runs_again_and_before_the_next() {
    let Stage { nats, queue, .. } = &Stage::start(100).await;
    let upstream = Guilds::start_slow(100, SECOND, Duration::from_millis(500)).await;
    publish(queue, 1, 3).await;
    let mut worker = JobsWorker::start(JOBS_WORKER, nats.url(), &upstream, &[]);
    until("the first job runs", async || (upstream.calls().len() == 1).then_some(())).await;
    let status = queue.status().await.unwrap();
    assert_eq!((status[0].running, status[0].delayed), (1, 2));
    worker.replace().await;
    until_empty(queue).await;
    assert_eq!(upstream.check(1, 3), 1, "the first job came twice");
}

/// Every job is done in order, though its server is killed and comes back: delayed jobs and running
/// ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nats_server_that_is_killed_loses_no_job() {
    let Stage { nats, queue, discord, _scheduler } = &mut Stage::start(20).await;
    let upstream = Guilds::start(20, SECOND).await;
    publish(queue, 5, 60).await;
    let mut workers = Vec::new();
    for _ in 0..2 {
        let worker = guilds::worker(queue, discord.clone());
        workers.push(worker.start(guilds::handler(upstream.url())).await.unwrap());
    }
    for done in [60, 140, 220] {
        until("jobs are done", async || (upstream.done() >= done).then_some(())).await;
        nats.kill().await.unwrap();
        nats.restart().await.unwrap();
    }
    until_empty(queue).await;
    let _twice = upstream.check(5, 60);
    for worker in workers {
        worker.stop().await;
    }
}
