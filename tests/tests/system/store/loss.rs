//! The store takes no writes. Permits go on within the checkpoint, and beyond it only as far as the
//! configuration says.

use crate::prelude::*;

/// A hundred requests a second.
const RATE: f64 = 100.0;

fn hub(more: &str) -> String {
    format!("[[resource]]\nname = \"hub\"\n{more}[[resource.limit]]\nname = \"few\"\ncapacity = 100\nperiod = \"1s\"\n")
}

async fn lose_store(nats: &Server) {
    jetstream::new(nats::connect(nats).await).delete_key_value("rampmeter").await.unwrap();
}

/// How many permits a client that never pauses gets within `time`.
async fn granted_within(worker: &Worker, time: Duration) -> f64 {
    let mut granted = 0;
    let asking = async {
        loop {
            let answers = worker.ask(Value::Array(vec![json!({"mode": "allow"}); 10])).await;
            granted += answers.as_array().unwrap().iter().filter(|answer| answer["status"] == "granted").count();
            let_pass(Duration::from_millis(20), "tokens come in").await;
        }
    };
    // A scheduler in doubt whether it leads sends no answer.
    let _elapsed = tokio::time::timeout(time, asking).await;
    granted as f64
}

/// The permits granted in three seconds and a half without a store.
async fn granted_without_store(more: &str) -> f64 {
    let (nats, _running, worker) = Worker::beside_scheduler(&hub(more)).await;
    until("the stock is used up", async || {
        (worker.limit("few").await.level < 5.0).then_some(()).or({
            worker.ask(json!({"cost": {"requests": 5}, "mode": "allow"})).await;
            None
        })
    })
    .await;
    lose_store(&nats).await;
    granted_within(&worker, Duration::from_millis(3500)).await
}

/// Checks that grants are worth this many seconds of refill. A leader that paused grants less,
/// because it cannot know whether it leads.
async fn check(more: &str, seconds: RangeInclusive<f64>) {
    undisturbed(async || {
        let granted = granted_without_store(more).await / RATE;
        assert!(granted <= *seconds.end(), "granted for {granted} s, at most {seconds:?}");
        if granted >= *seconds.start() { Ok(()) } else { Err(format!("granted for {granted} s, at least {seconds:?}")) }
    })
    .await;
}

/// Its only user may not write the state of `hub`.
const DENIES: &str = r#"
authorization { users: [{ user: all, password: all, permissions: { publish: { deny: "$KV.rampmeter.state.hub" } } }] }
no_auth_user: all
"#;

#[tokio::test]
async fn a_write_that_is_denied_says_which_permission_is_missing() {
    let (_folder, nats) = nats::configured(DENIES).await;
    let running = scheduler::begin(&nats, &hub("")).await;
    let reason = until("the resource is in trouble", async || {
        let ready: Value = serde_json::from_str(&scheduler::page(&running, "/readyz").await.1).unwrap();
        ready["resources"]["hub"]["reason"].as_str().map(str::to_owned)
    })
    .await;
    let expected = r#"Permissions Violation for Publish to "$KV.rampmeter.state.hub""#;
    assert!(reason.contains(expected), "{reason}");
}

#[tokio::test]
async fn hold_stops_where_the_checkpoint_ends() {
    // At most a grant budget of 0.3 s, and the stock.
    check("", 0.01..=0.6).await;
}

#[tokio::test]
async fn a_longer_reservation_bridges_more() {
    check("reservation = \"2s\"\n", 0.8..=2.6).await;
}
