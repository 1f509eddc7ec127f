//! Several jobs of a group at once, times that handlers name, deadlines, and positions.

use super::{Log, SECOND, Stage};
use crate::prelude::*;
use rampmeter_jobs::GroupStatus;
use rampmeter_tests::guilds::name;
use std::future::{Ready, ready};
use tokio::sync::Semaphore;

const NEVER: Duration = Duration::from_secs(3600);

impl Stage {
    async fn publish(&self, jobs: std::ops::Range<u32>) -> Vec<u64> {
        let mut places = Vec::new();
        for number in jobs {
            places.push(self.queue.publish(Job::new(name(0), number.to_string())).await.unwrap().sequence);
        }
        places
    }

    /// The only group: how many jobs wait, run and are dead.
    async fn counts(&self) -> (usize, usize, usize) {
        match self.queue.status().await.unwrap().as_slice() {
            [] => (0, 0, 0),
            [GroupStatus { delayed, running, dead, .. }] => (*delayed, *running, *dead),
            more => panic!("{more:?}"),
        }
    }

    async fn until_counts(&self, expected: (usize, usize, usize)) {
        until(&format!("the counts are {expected:?}"), async || (self.counts().await == expected).then_some(())).await;
    }
}

/// Runs a job that ends once the gate lets it.
async fn run(log: Log, gate: Arc<Semaphore>, attempt: Attempt) -> Result<Outcome, Failure> {
    log.note(&attempt);
    gate.acquire().await.unwrap().forget();
    Ok(Outcome::status(204))
}

#[tokio::test]
async fn no_more_jobs_of_a_group_run_than_are_allowed() {
    let stage = Stage::start(1000).await;
    let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
    let held = (log.clone(), gate.clone());
    let handler = move |attempt: Attempt| run(held.0.clone(), held.1.clone(), attempt);
    let worker = guilds::worker(&stage.queue, stage.discord.clone()).concurrency(3);
    let workers = [worker.clone().start(handler.clone()).await.unwrap(), worker.start(handler).await.unwrap()];
    stage.publish(0..8).await;
    let mut first = log.reach(3).await;
    first.sort();
    assert_eq!(first, ["0", "1", "2"]);
    stage.until_counts((5, 3, 0)).await;
    for ended in 1..=5 {
        gate.add_permits(1);
        assert_eq!(log.reach(3 + ended).await.len(), 3 + ended, "one begins for each that ends");
        stage.until_counts((5 - ended, 3, 0)).await;
    }
    gate.add_permits(3);
    stage.until_counts((0, 0, 0)).await;
    for worker in workers {
        worker.stop().await;
    }
}

/// Reaches `MAX_CONCURRENCY`, which a worker that asks for more does not exceed.
#[tokio::test]
async fn no_more_than_64_jobs_of_a_group_run() {
    let stage = Stage::start(1000).await;
    let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
    let held = (log.clone(), gate.clone());
    let handler = move |attempt: Attempt| run(held.0.clone(), held.1.clone(), attempt);
    stage.publish(0..70).await;
    let worker = guilds::worker(&stage.queue, stage.discord.clone()).concurrency(1000).start(handler).await.unwrap();
    log.reach(64).await;
    let_pass(SECOND, "another job would begin meanwhile").await;
    assert_eq!((log.lines().len(), stage.counts().await), (64, (6, 64, 0)));
    gate.add_permits(70);
    stage.until_counts((0, 0, 0)).await;
    worker.stop().await;
}

/// A handler that these attempts ask to be called again after `pause`.
fn postponing(
    log: &Log,
    attempts: &'static [&str],
    pause: Duration,
) -> impl Fn(Attempt) -> Ready<Result<Outcome, Failure>> + use<> {
    let log = log.clone();
    move |attempt| match attempts.contains(&&*log.note(&attempt)) {
        true => ready(Err(Failure::for_now("not ready").retry_after(pause))),
        false => ready(Ok(Outcome::status(204))),
    }
}

/// A job that waits for another attempt keeps one place. The other jobs run, and so does a job that
/// arrives when the lane is asleep.
#[tokio::test]
async fn jobs_go_on_beside_one_that_waits() {
    let stage = Stage::start(1000).await;
    let log = Log::default();
    let handler = postponing(&log, &["0"], NEVER);
    let worker = guilds::worker(&stage.queue, stage.discord.clone()).concurrency(2).start(handler).await.unwrap();
    stage.publish(0..5).await;
    stage.until_counts((1, 0, 0)).await;
    for number in 5..7 {
        stage.publish(number..number + 1).await;
        log.reach(number as usize + 1).await;
        stage.until_counts((1, 0, 0)).await;
    }
    assert_eq!(log.lines(), ["0", "1", "2", "3", "4", "5", "6"]);
    worker.stop().await;
}

/// With one job at a time, the group waits as well.
#[tokio::test]
async fn a_handler_names_the_time_of_the_next_attempt() {
    let stage = Stage::start(1000).await;
    let log = Log::default();
    let handler = postponing(&log, &["0", "0#2"], SECOND / 5);
    // The worker's own pause would be an hour.
    let worker = guilds::worker(&stage.queue, stage.discord.clone()).backoff(NEVER, NEVER);
    let worker = worker.start(handler).await.unwrap();
    stage.publish(0..2).await;
    assert_eq!(log.reach(4).await, ["0", "0#2", "0#3", "1"]);
    worker.stop().await;
}

#[tokio::test]
async fn an_execution_ends_at_its_deadline() {
    let stage = Stage::start(1000).await;
    let log = Log::default();
    let noted = log.clone();
    let handler = move |attempt: Attempt| {
        let line = noted.note(&attempt);
        async move {
            match line.starts_with('0') {
                true => std::future::pending().await,
                false => Ok::<_, Failure>(Outcome::status(204)),
            }
        }
    };
    let worker = guilds::worker(&stage.queue, stage.discord.clone()).max_attempts(2);
    let worker = worker.backoff(SECOND / 20, SECOND).deadline(SECOND / 10).start(handler).await.unwrap();
    stage.publish(0..2).await;
    stage.until_counts((0, 0, 1)).await;
    assert_eq!(log.lines(), ["0", "0#2", "1"]);
    let dead = stage.queue.dead_letters(1).await.unwrap();
    assert_eq!((dead[0].attempts, &*dead[0].reason), (2, "the handler took longer than 100ms"));
    worker.stop().await;
}

/// The limit allows two calls in a second.
#[tokio::test]
async fn a_job_knows_its_position_and_has_an_estimate() {
    let stage = Stage::start(2).await;
    let places = stage.publish(0..12).await;
    let upstream = Guilds::start(2, SECOND).await;
    let last = stage.queue.position(places[11]).await.unwrap().unwrap();
    assert_eq!((&*last.group, last.class, last.ahead, last.running), ("guild 0", None, 11, false));
    assert_eq!(last.starts_in, None, "no job has ended yet");

    let worker = guilds::worker(&stage.queue, stage.discord.clone()).patience(SECOND / 10);
    let worker = worker.start(guilds::handler(upstream.url())).await.unwrap();
    until("five jobs are done", async || (upstream.done() >= 5).then_some(())).await;
    // Two jobs in a second: the mean of so few jobs is near half a second for each.
    until("the estimate is that of the reservoir", async || {
        let last = stage.queue.position(places[11]).await.unwrap().unwrap();
        assert!(last.ahead <= 7, "{last:?}");
        let for_each = last.starts_in?.as_secs_f64() / last.ahead as f64;
        (0.2..0.9).contains(&for_each).then_some(())
    })
    .await;
    until("all jobs are done", async || (upstream.done() == 12).then_some(())).await;
    stage.until_counts((0, 0, 0)).await;
    assert_eq!(stage.queue.position(places[11]).await.unwrap(), None);
    worker.stop().await;
}

/// Jobs of a worker that was dropped run again, and the attempts at each of them count.
#[tokio::test]
async fn every_job_that_a_dead_worker_ran_runs_again() {
    let stage = Stage::start(1000).await;
    let log = Log::default();
    stage.publish(0..3).await;
    for death in 1..=2 {
        let noted = log.clone();
        let fatal = move |attempt: Attempt| {
            noted.note(&attempt);
            std::future::pending::<Result<Outcome, Failure>>()
        };
        let worker = guilds::worker(&stage.queue, stage.discord.clone()).concurrency(3).start(fatal).await.unwrap();
        let mut begun = log.reach(3 * death).await.split_off(3 * (death - 1));
        begun.sort();
        let again = if death > 1 { format!("#{death}") } else { String::new() };
        assert_eq!(begun, [0, 1, 2].map(|number| format!("{number}{again}")));
        drop(worker);
    }
    let upstream = Guilds::start(1000, SECOND).await;
    let worker = guilds::worker(&stage.queue, stage.discord.clone()).max_attempts(2);
    let worker = worker.start(guilds::handler(upstream.url())).await.unwrap();
    stage.until_counts((0, 0, 3)).await;
    assert_eq!(upstream.done(), 0, "all attempts were spent");
    let dead = stage.queue.dead_letters(1).await.unwrap();
    assert_eq!((dead[0].attempts, &*dead[0].reason), (2, "its worker did not survive the last attempt"));
    worker.stop().await;
}
