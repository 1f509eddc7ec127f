//! Limits that count something other than tokens, at upstreams that enforce them.

use crate::prelude::*;
use rampmeter_tests::fleet::Job;

const WORKERS: usize = 40;
const CALLS: usize = 5;

/// A worker that pauses between its permit and its call makes it in another window.
async fn no_call_is_answered_429(algorithm: &str, policy: &str) {
    undisturbed(async || measure_429s(algorithm, policy).await).await;
}

/// Forty workers make two hundred calls, fifty in two seconds.
async fn measure_429s(algorithm: &str, policy: &str) -> Result<(), String> {
    let resource = format!(
        "[[resource]]\nname = \"api\"\nstart = \"full\"\n[[resource.limit]]\nname = \"window\"\nalgorithm = \"{algorithm}\"\ncapacity = 50\nperiod = \"2s\"\n"
    );
    let (nats, _running) = scheduler::alone(&resource).await;
    let upstream = upstream(&[policy]).await;
    let job = Job { resource: "api", asking: Asking::InLine, api: Api::new(&upstream), cost: BTreeMap::new() };
    let clock = Clock::start();
    let mut fleet = Fleet::start(&nats, WORKERS, CALLS, &job).await;
    fleet.finish().await;
    let seconds = clock.now().since(Clock::START).secs();
    let (rejections, total) = (fleet.throttled(), upstream.stats().total);
    assert_eq!(total.ok, (WORKERS * CALLS) as u64, "{algorithm}: {total:?}");
    // Four windows' worth: three have to pass, and a part of the first.
    match rejections == 0 && (4.0..=9.0).contains(&seconds) {
        true => Ok(()),
        false => Err(format!("{algorithm}: {rejections} × 429, {seconds} s")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_are_kept_to() {
    no_call_is_answered_429("fixed-window", "requests=50/2s;fixed-window").await;
    no_call_is_answered_429("sliding-window", "requests=50/2s;sliding-window").await;
}

/// How long a call without a report may be in flight.
const TIME_TO_LIVE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_over_lets_the_next_one_go_and_one_that_is_renewed_does_not() {
    let nats = nats::start().await;
    let one = calls_in_flight(1, TIME_TO_LIVE);
    let _running = scheduler::start(&nats, &one).await;
    let worker = Worker::connect(&nats, "api").await;
    worker.ask(json!({"id": "a"})).await;
    let mut next = worker.send("permit", json!({"id": "b", "mode": "wait", "max_wait_ms": 1500}).to_string()).await;
    assert_eq!(worker.settle(json!({"id": "a", "extend": true})).await["status"], "settled");
    assert_eq!(worker.limit("in-flight").await.level, 0.0);
    assert_eq!(worker.settle(json!({"id": "a"})).await["status"], "settled");
    assert_eq!(next.body().await["status"], "granted", "long before the time to live is over");
    assert_eq!(worker.settle(json!({"id": "b"})).await["status"], "settled");
    assert_eq!(worker.limit("in-flight").await.level, 1.0);
}

#[tokio::test]
async fn a_quota_that_is_gone_is_no_reason_to_wait() {
    let quota = r#"
[[resource]]
name = "api"
start = "full"
limit = [{ name = "monthly", algorithm = "quota", resets = "month", zone = "Europe/Berlin", capacity = 3 }]
"#;
    let (_nats, _running, worker) = Worker::beside_scheduler(quota).await;
    worker.ask(json!({"cost": {"requests": 2}})).await;
    let refused = worker.ask(json!({"cost": {"requests": 2}, "mode": "wait"})).await;
    assert_eq!((&refused["code"], &refused["limited_by"]), (&json!("quota_spent"), &json!("monthly")), "{refused}");
    let month_ms = 31.05 * 86_400_000.0;
    assert!(refused["retry_after_ms"].as_f64().is_some_and(|wait| (0.0..month_ms).contains(&wait)), "{refused}");
}
