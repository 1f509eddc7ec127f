//! Jobs with the shipped configuration of nats-server. Jobs have an account of their own. A worker
//! may do all that jobs take. It makes no stream, and reaches no permit, no event and no state.

use crate::nats::permissions::User;
use crate::prelude::*;
use rampmeter_jobs::Worker;

/// The subjects of acknowledgements with tokens for domain and account, which NATS 2.16 has by
/// default.
const SECOND_FORM: &str = "feature_flags { js_ack_fc_v2: true }\n";
const EVENTS: &str = "rampmeter.event.discord";

/// Subjects that no worker may publish to.
const FORBIDDEN: &[&str] = &[
    "$JS.API.INFO",
    "$JS.API.STREAM.CREATE.rampmeter-jobs-roles",
    "$JS.API.STREAM.CREATE.other",
    "$JS.API.STREAM.UPDATE.rampmeter-jobs-roles",
    "$JS.API.STREAM.DELETE.rampmeter-jobs-roles",
    "$JS.API.STREAM.PURGE.rampmeter-jobs-roles",
    "$JS.API.STREAM.PURGE.rampmeter-lanes-roles",
    "$JS.API.CONSUMER.CREATE.rampmeter-jobs-roles",
    "$JS.API.CONSUMER.CREATE.rampmeter-jobs-roles.a.rampmeter.jobs.roles.>",
    "$JS.API.CONSUMER.DURABLE.CREATE.rampmeter-jobs-roles.a",
    "$JS.API.CONSUMER.DELETE.rampmeter-lanes-roles.batons--",
    "rampmeter.event.discord",
    "rampmeter.permit.discord",
    "$KV.rampmeter.state.discord",
    "_INBOX_jobs.a",
];

struct Stage {
    queue: Queue,
    discord: Resource,
    _client: Client,
    _scheduler: Running,
    nats: Server,
    _folder: TempDir,
}

/// A scheduler, and the queue `roles`, which an operator has made.
async fn stage(further: &str) -> Stage {
    let (folder, nats) = shipped::single_with_jobs(further).await;
    let limits = discord(100, Duration::from_secs(1));
    let scheduler = shipped::lead(&nats, &limits).await;
    let operator = shipped::url(&nats, "jobs-operator");
    let init = process::run(RAMPMETER, &["jobs", "init", "roles", "--class", "usual", "--nats", &operator]).await;
    assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    let queue = open(&nats, "roles").await.unwrap();
    let client = Client::builder().options(shipped::login("worker")).inbox_prefix("_INBOX_worker");
    let client = client.connect(nats.url()).await.unwrap();
    let discord = client.resource("discord").unwrap();
    Stage { queue, discord, _client: client, _scheduler: scheduler, nats, _folder: folder }
}

async fn open(nats: &Server, name: &str) -> Result<Queue, rampmeter_jobs::QueueError> {
    Queue::builder().options(shipped::login("jobs")).open(nats.url(), name).await
}

/// Runs the published jobs; `hopeless` fails for good.
async fn worker(stage: &Stage) -> Worker {
    let handler = async |attempt: Attempt| match &*attempt.payload {
        b"hopeless" => Err(Failure::for_good("there is no such user")),
        _fine => Ok(Outcome::status(204)),
    };
    stage.queue.worker(stage.discord.clone()).group_label("guild").class("usual").start(handler).await.unwrap()
}

async fn check_that_jobs_run(further: &str) {
    let stage = stage(further).await;
    let worker = worker(&stage).await;
    let job = |payload: &'static str| Job::new("a", payload).class("usual");
    stage.queue.publish(job("one")).await.unwrap();
    let batch = stage.queue.publish_all(["hopeless", "two"].map(job)).await.unwrap();
    assert_eq!(batch.iter().map(|published| published.sequence).collect::<Vec<_>>(), [2, 3]);
    stage.queue.position(3).await.unwrap();
    let dead = until("one is dead and the others are done", async || {
        let status = stage.queue.status().await.unwrap();
        let left: usize = status.iter().map(|group| group.delayed + group.running).sum();
        let dead = stage.queue.dead_letters(9).await.unwrap();
        (left == 0 && !dead.is_empty()).then_some(dead)
    })
    .await;
    assert_eq!((dead.len(), &*dead[0].reason), (1, "there is no such user"));
    assert!(stage.queue.delete(dead[0].sequence).await.unwrap());
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_may_do_what_jobs_take() {
    check_that_jobs_run("").await;
}

#[tokio::test]
async fn jobs_run_with_both_forms_of_acknowledgements() {
    check_that_jobs_run(SECOND_FORM).await;
}

#[tokio::test]
async fn a_worker_may_do_nothing_else() {
    let stage = stage("").await;
    let mut user = User::connect(&stage.nats, "jobs").await;
    for subject in FORBIDDEN {
        assert_eq!(user.publish(subject).await.len(), 1, "{subject}");
    }
    let error = open(&stage.nats, "other").await.unwrap_err();
    assert_eq!(error.kind(), QueueErrorKind::Missing, "{error}");
    // A queue that an operator may make, but no worker.
    let made = Queue::builder().options(shipped::login("jobs"));
    within("an answer", made.create(stage.nats.url(), "other")).await.unwrap_err();
}

/// NATS delivers a stored message to the reply subject of the request for it, whatever the client
/// may publish. In the account of jobs nothing listens there.
#[tokio::test]
async fn a_job_reaches_no_subject_of_permits_events_or_state() {
    let stage = stage("").await;
    let job = json!({"event": "leader", "epoch": unix_ms(), "leader": "x"}).to_string();
    let worker = User::connect(&stage.nats, "worker").await;
    let mut events = worker.client().subscribe(EVENTS).await.unwrap();
    worker.client().flush().await.unwrap();
    let liar = User::connect(&stage.nats, "jobs").await;
    let operator = User::connect(&stage.nats, "jobs-operator").await;
    let mut delivered = operator.client().subscribe(">").await.unwrap();
    operator.client().flush().await.unwrap();
    for reply in [EVENTS, "$KV.rampmeter.state.discord", "rampmeter.settle.discord"] {
        stage.queue.publish(Job::new("a", job.clone())).await.unwrap();
        let next = "$JS.API.CONSUMER.MSG.NEXT.rampmeter-jobs-roles.arrivals";
        liar.client().publish_with_reply(next, reply, "1".into()).await.unwrap();
        until("it is delivered in this account", async || {
            let message = delivered.next().now_or_never().flatten()?;
            message.reply.is_some_and(|reply| reply.starts_with("$JS.ACK.")).then_some(())
        })
        .await;
    }
    let permit = within("a permit", stage.discord.acquire(1).label("guild", "a").into_future()).await.unwrap();
    permit.begin().settle(Outcome::status(204));
    assert!(events.next().now_or_never().is_none(), "no event came");
    let scheduler = User::connect(&stage.nats, "scheduler").await;
    let state = nats::bucket_of(scheduler.client()).await.get("state.discord").await.unwrap().unwrap();
    assert!(state.starts_with(b"rampmeter "), "{state:?}");
}

/// The server reports a missing right beside the request, which merely gets no answer.
#[tokio::test]
async fn without_rights_a_queue_that_is_made_names_the_missing_one() {
    let (_folder, nats) = shipped::single_with_jobs("").await;
    let made = Queue::builder().options(shipped::login("jobs")).create(nats.url(), "other").await;
    let error = made.unwrap_err();
    let denial = "the NATS server does not permit it: Permissions Violation for Publish to \
                  \"$JS.API.STREAM.CREATE.rampmeter-jobs-other\"";
    assert!(error.to_string().contains(denial), "{error}");
}

/// Without that account there are no jobs.
#[tokio::test]
async fn without_the_account_of_jobs_no_queue_is_opened() {
    let nats = shipped::single().await;
    let error = within("an answer", open(&nats, "roles")).await.unwrap_err();
    assert_eq!(error.kind(), QueueErrorKind::Connect, "{error}");
}
