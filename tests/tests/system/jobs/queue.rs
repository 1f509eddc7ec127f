//! Delayed jobs: order, retries, dead letters, duplicates, deletion, classes.

use super::{Log, SECOND, Stage};
use crate::JOBS_WORKER;
use crate::prelude::*;
use async_nats::HeaderMap;
use rampmeter_jobs::{GroupStatus, Worker};
use rampmeter_tests::guilds::{GuildCall, name};
use rampmeter_tests::job_run;
use rampmeter_tests::wrong_clock::WrongClock;

/// A worker that logs its jobs. `bad` fails, `hopeless` fails for good, `mine` panics, and `early`
/// is answered 429 twice.
async fn worker(stage: &Stage, log: &Log) -> Worker {
    let log = log.clone();
    let worker = guilds::worker(&stage.queue, stage.discord.clone()).max_attempts(3);
    let worker = worker.class("urgent").class("usual").backoff(Duration::from_millis(50), SECOND);
    let handler = move |attempt: Attempt| {
        let log = log.clone();
        async move {
            log.note(&attempt);
            let early = log.lines().iter().filter(|line| *line == "early").count();
            match &*attempt.payload {
                b"early" if early < 3 => Ok(Outcome::status(429)),
                b"bad" => Err(Failure::for_now("it never works")),
                b"hopeless" => Err(Failure::for_good("there is no such user")),
                b"mine" => panic!("the handler steps on a mine"),
                _fine => Ok(Outcome::status(204)),
            }
        }
    };
    worker.start(handler).await.unwrap()
}

async fn publish(stage: &Stage, group: &str, payload: &str) -> u64 {
    stage.queue.publish(job(group, payload)).await.unwrap().sequence
}

fn job(group: &str, payload: &str) -> Job {
    Job::new(group, payload.to_owned()).class("usual")
}

/// Waits until only `dead` dead letters are left.
async fn until_done(queue: &Queue, dead: usize) {
    until("the queue is empty", async || {
        let status = queue.status().await.unwrap();
        let left: usize = status.iter().map(|group| group.delayed + group.running).sum();
        (left == 0 && status.iter().map(|group| group.dead).sum::<usize>() == dead).then_some(())
    })
    .await;
}

/// Checks that empty lanes leave no record, and JetStream waits for no acknowledgement.
async fn check_nothing_is_left(nats: &Server) {
    let jetstream = jetstream::new(nats::connect(nats).await);
    let stream = jetstream.get_stream("rampmeter-lanes-roles").await.unwrap();
    until("the stream of lanes is empty", async || {
        let left = stream.get_info().await.unwrap().state.messages;
        let consumer = stream.consumer_info("batons-usual").await.unwrap();
        (left == 0 && consumer.num_ack_pending == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn jobs_of_a_group_run_in_order_over_several_workers() {
    let stage = Stage::start(100).await;
    let upstream = Guilds::start(100, SECOND).await;
    let mut workers = Vec::new();
    for _ in 0..3 {
        let worker = guilds::worker(&stage.queue, stage.discord.clone()).slots(2);
        workers.push(worker.start(guilds::handler(upstream.url())).await.unwrap());
    }
    for number in 0..50 {
        for guild in 0..8 {
            let job = Job::new(name(guild), number.to_string());
            stage.queue.publish(job).await.unwrap();
        }
    }
    until("all jobs are done", async || (upstream.done() == 400).then_some(())).await;
    assert_eq!(upstream.check(8, 50), 0, "no worker died, and no job ran twice");
    until_done(&stage.queue, 0).await;
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_job_that_fails_is_tried_again_and_ends_among_the_dead_letters() {
    let stage = Stage::start(1000).await;
    let log = Log::default();
    for payload in ["1", "bad", "hopeless", "mine", "2"] {
        publish(&stage, "a", payload).await;
    }
    let dear = job("a", "dear").cost(Cost::requests(2000)).id("dear");
    stage.queue.publish(dear).await.unwrap();
    let worker = worker(&stage, &log).await;
    publish(&stage, "b", "3").await;
    until_done(&stage.queue, 4).await;
    let mut order = log.lines();
    order.retain(|line| line != "3");
    assert_eq!(order, ["1", "bad", "bad#2", "bad#3", "hopeless", "mine", "mine#2", "mine#3", "2"]);

    let dead = stage.queue.dead_letters(10).await.unwrap();
    let letters: Vec<_> = dead.iter().map(|letter| (&*letter.payload, letter.attempts, &*letter.reason)).collect();
    assert_eq!(
        letters[..3],
        [
            (&b"bad"[..], 3, "it never works"),
            (&b"hopeless"[..], 1, "there is no such user"),
            (&b"mine"[..], 3, "the handler panicked"),
        ]
    );
    assert!(letters[3].2.contains("never_fits") && dead[3].id.as_deref() == Some("dear"), "{letters:?}");
    assert!(stage.queue.delete(dead[0].sequence).await.unwrap());
    until_done(&stage.queue, 3).await;
    check_nothing_is_left(&stage.nats).await;
    worker.stop().await;
}

/// The job runs again after the freeze with another permit, before the next job of its group. The
/// 429 does not count as an attempt.
#[tokio::test]
async fn a_job_that_is_answered_429_waits_for_another_permit() {
    let stage = Stage::start(1000).await;
    let log = Log::default();
    for payload in ["1", "early", "2"] {
        publish(&stage, "a", payload).await;
    }
    let worker = worker(&stage, &log).await;
    until_done(&stage.queue, 0).await;
    assert_eq!(log.lines(), ["1", "early", "early", "early", "2"]);
    worker.stop().await;
}

/// The known weak points: new jobs take no slot of delayed ones, and a deleted job leaves nothing
/// behind. Delayed jobs are counted right, and workers' clocks that are three seconds apart change
/// nothing.
#[tokio::test]
async fn delayed_jobs_keep_their_times_whatever_comes_or_goes() {
    undisturbed(delayed_jobs_keep_their_times).await;
}

async fn delayed_jobs_keep_their_times() -> Result<(), String> {
    let stage = Stage::start(2).await;
    let upstream = Guilds::start(2, SECOND).await;
    let mut sequences = Vec::new();
    for number in 0..8 {
        let job = Job::new(name(0), number.to_string());
        sequences.push(stage.queue.publish(job).await.unwrap().sequence);
    }
    let clock = WrongClock::build().await;
    let _workers = [0, 3].map(|fast| {
        let mut environment = clock.fast_by(fast).to_vec();
        environment.push(("PATIENCE_MS", "100".to_owned()));
        job_run::JobsWorker::start(JOBS_WORKER, stage.nats.url(), &upstream, &environment)
    });
    until("the first have run", async || (upstream.done() >= 2).then_some(())).await;
    // A job disappears a moment after its call.
    until("all others are counted", async || {
        let (left, status) = (8 - upstream.done(), stage.queue.status().await.unwrap());
        let [GroupStatus { group, delayed, running, .. }] = status.as_slice() else { return None };
        (group == "guild 0" && delayed + running == left).then_some(())
    })
    .await;

    // Two are deleted while they are delayed, and two are added; other guilds have jobs too.
    for gone in [4, 5] {
        assert!(stage.queue.delete(sequences[gone]).await.unwrap());
    }
    for number in 8..10 {
        stage.queue.publish(Job::new(name(0), number.to_string())).await.unwrap();
        for guild in 1..20 {
            stage.queue.publish(Job::new(name(guild), number.to_string())).await.unwrap();
        }
    }
    until_done(&stage.queue, 0).await;
    let calls = upstream.calls();
    assert!(calls.iter().all(|call| !call.throttled));
    let of_guild: Vec<_> = calls.iter().filter(|call| call.guild == name(0)).collect();
    assert_eq!(of_guild.iter().map(|call| call.job).collect::<Vec<_>>(), [0, 1, 2, 3, 6, 7, 8, 9]);
    assert_eq!(stage.queue.status().await.unwrap(), Vec::<GroupStatus>::new());
    in_time(&of_guild)
}

/// Checks that one call starts at once, and then one each half second: of two tokens one is margin.
fn in_time(calls: &[&GuildCall]) -> Result<(), String> {
    let late = |number: usize| (calls[number].at - calls[0].at).as_secs_f64() - 0.5 * number as f64;
    match (0..calls.len()).find(|number| !(-0.05..0.35).contains(&late(*number))) {
        Some(number) => Err(format!("job {number} is {} s late: {calls:?}", late(number))),
        None => Ok(()),
    }
}

#[tokio::test]
async fn urgent_jobs_overtake_their_group_and_find_a_slot() {
    let stage = Stage::start(10).await;
    let log = Log::default();
    for number in 0..30 {
        publish(&stage, "a", &number.to_string()).await;
    }
    let worker = worker(&stage, &log).await;
    log.reach(8).await;
    stage.queue.publish(job("a", "now").class("urgent")).await.unwrap();
    let order = log.reach(31).await;
    let place = order.iter().position(|line| line == "now").unwrap();
    assert!((8..14).contains(&place), "{order:?}");
    worker.stop().await;
}

/// A worker leaves a lane in several steps. A job that arrives between any two of them runs.
#[tokio::test]
async fn jobs_that_arrive_while_their_lane_is_left_are_run() {
    let stage = Stage::start(10_000).await;
    let (done, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |attempt: Attempt| {
        let sent = done.send(attempt.sequence);
        async move { sent.map(|()| Outcome::status(204)).map_err(Failure::from) }
    };
    let worker = stage.queue.worker(stage.discord.clone()).slots(2).start(handler).await.unwrap();
    for round in 0..300 {
        let job = stage.queue.publish(Job::new("a", "")).await.unwrap();
        assert_eq!(within("the job runs", seen.recv()).await, Some(job.sequence));
        // The steps after a run take about two milliseconds.
        let_pass(Duration::from_micros(10 * round), "the next job comes at any point of leaving").await;
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_plain_client_of_nats_is_a_producer() {
    let stage = Stage::start(1000).await;
    let log = Log::default();
    let worker = worker(&stage, &log).await;
    let client = nats::connect(&stage.nats).await;
    client.publish("rampmeter.jobs.roles.job.usual.a", "1".into()).await.unwrap();
    assert_eq!(log.reach(1).await, ["1"]);
    let mut headers = HeaderMap::new();
    headers.insert("Rampmeter-Cost", "cheap");
    client.publish_with_headers("rampmeter.jobs.roles.job.usual.a=20b", headers, "2".into()).await.unwrap();
    until_done(&stage.queue, 1).await;
    let dead = stage.queue.dead_letters(1).await.unwrap();
    assert!(dead[0].group == "a b" && dead[0].reason.starts_with("header Rampmeter-Cost: "), "{dead:?}");
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_that_is_stopped_ends_what_runs_and_hands_the_rest_on() {
    let stage = Stage::start(10).await;
    let log = Log::default();
    for number in 0..20 {
        publish(&stage, "a", &number.to_string()).await;
    }
    let first = worker(&stage, &log).await;
    log.reach(3).await;
    first.stop().await;
    let done = log.lines().len();
    let_pass(Duration::from_millis(300), "a stopped worker runs nothing").await;
    assert_eq!(log.lines().len(), done);
    let second = worker(&stage, &log).await;
    let expected: Vec<String> = (0..20).map(|number| format!("{number}")).collect();
    assert_eq!(log.reach(20).await, expected, "each once");
    second.stop().await;
}

#[tokio::test]
async fn invalid_jobs_and_names_of_queues_are_refused() {
    let stage = Stage::start(10).await;
    for job in [Job::new("", ""), Job::new("a", "").class("-"), Job::new("a", "").id("no spaces")] {
        let partly = stage.queue.publish_all([Job::new("a", ""), job.clone()]).await.unwrap_err();
        let errors = [partly.error, stage.queue.publish(job).await.unwrap_err()];
        assert!(errors.iter().all(|error| error.kind() == QueueErrorKind::InvalidArgument), "{errors:?}");
    }
    assert_eq!(stage.queue.status().await.unwrap(), [], "no job is published beside one that is invalid");
    let error = Queue::open(stage.nats.url(), "a.b").await.unwrap_err();
    assert_eq!(error.kind(), QueueErrorKind::InvalidArgument, "{error}");
    let error = stage.queue.worker(stage.discord.clone()).class("a b");
    let error = error.start(async |_| Ok::<_, Failure>(Outcome::status(200))).await.unwrap_err();
    assert_eq!(error.kind(), QueueErrorKind::InvalidArgument, "{error}");
    assert!(!stage.queue.delete(4711).await.unwrap());
}
