//! Jobs with the shipped configuration of nats-server. A worker may do all that they need, and
//! reaches no other stream.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use crate::permissions::User;
use rampmeter_jobs::{Attempt, Failure, Job, Queue, QueueErrorKind, Worker};
use rampmeter_nats_server::Server;
use rampmeter_tests::guilds::discord;
use rampmeter_tests::patience::{until, within};
use rampmeter_tests::{scheduler, shipped};
use rampmeter_worker_sdk::{Client, Outcome};
use std::time::Duration;

/// Subjects that no worker may publish to, whatever its jobs are.
const FORBIDDEN: &[&str] = &[
    "$JS.API.STREAM.DELETE.rampmeter-jobs-roles",
    "$JS.API.STREAM.PURGE.rampmeter-jobs-roles",
    "$JS.API.STREAM.UPDATE.rampmeter-jobs-roles",
    "$JS.API.STREAM.PURGE.rampmeter-lanes-roles",
    "$JS.API.CONSUMER.DELETE.rampmeter-lanes-roles.batons",
    "$JS.API.STREAM.CREATE.rampmeter-jobs-other",
    "$JS.API.STREAM.INFO.rampmeter-jobs-other",
    "rampmeter.jobs.other.job.-.a",
    "$JS.API.STREAM.INFO.KV_rampmeter",
    "$JS.API.STREAM.MSG.GET.KV_rampmeter",
    "$JS.API.STREAM.MSG.DELETE.KV_rampmeter",
    "$KV.rampmeter.state.discord",
    "$KV.rampmeter-rules.rules",
];

async fn open(nats: &Server, name: &str) -> Result<Queue, rampmeter_jobs::QueueError> {
    Queue::builder().options(shipped::login("worker")).open(nats.url(), name).await
}

/// Runs the published jobs; `hopeless` fails for good.
async fn worker(nats: &Server, queue: &Queue) -> Worker {
    let client = Client::builder().options(shipped::login("worker")).inbox_prefix("_INBOX_worker");
    let discord = client.connect(nats.url()).await.unwrap().resource("discord").unwrap();
    let handler = async |attempt: Attempt| match &*attempt.payload {
        b"hopeless" => Err(Failure::for_good("there is no such user")),
        _fine => Ok(Outcome::status(204)),
    };
    queue.worker(discord).group_label("guild").class("usual").start(handler).await.unwrap()
}

#[tokio::test]
async fn a_worker_may_do_what_jobs_take_and_nothing_else() {
    let (_folder, nats) = shipped::single_with_jobs().await;
    let limits = discord(100, Duration::from_secs(1));
    let text = shipped::configuration(&shipped::url(&nats, "scheduler"), &limits);
    let scheduler = scheduler::try_begin(&text).await.unwrap();
    within("a scheduler is ready", scheduler.ready()).await;
    let queue = open(&nats, "roles").await.unwrap();
    let worker = worker(&nats, &queue).await;
    for payload in ["one", "hopeless", "two"] {
        queue.publish(Job::new("a", payload).class("usual")).await.unwrap();
    }
    let dead = until("one is dead and the others are done", async || {
        let status = queue.status().await.unwrap();
        let left: usize = status.iter().map(|group| group.delayed + group.running).sum();
        let dead = queue.dead_letters(9).await.unwrap();
        (left == 0 && !dead.is_empty()).then_some(dead)
    })
    .await;
    assert_eq!((dead.len(), &*dead[0].reason), (1, "there is no such user"));
    assert!(queue.delete(dead[0].sequence).await.unwrap());
    worker.stop().await;

    let mut user = User::connect(&nats, "worker").await;
    for subject in FORBIDDEN {
        assert_eq!(user.publish(subject).await.len(), 1, "{subject}");
    }
}

/// Without those lines there is no access to a queue, and opening it fails soon.
#[tokio::test]
async fn without_the_lines_for_jobs_no_queue_is_opened() {
    let nats = shipped::single().await;
    let error = within("an answer", open(&nats, "roles")).await.unwrap_err();
    assert_eq!(error.kind(), QueueErrorKind::Store, "{error}");
}
