//! What a worker says of the upstream stops the calls of its own limits for a minute, and an operator
//! ends that.

use crate::prelude::*;

/// Nothing refills while a test runs.
const HUB: &str = r#"
[[resource]]
name = "hub"
start = "full"
limit = [
    { name = "few", capacity = 100, period = "400h", margin = 0 },
    { name = "in-flight", algorithm = "concurrency", capacity = 10, time_to_live = "300s" },
    { name = "units", unit = "processing-units", capacity = 100, period = "400h", margin = 0 },
]
"#;

/// A settle that says that the upstream demands such a pause.
fn lie(id: &str, retry_after: &str) -> Value {
    let headers = json!({ "retry-after": retry_after });
    json!({ "id": id, "response": { "status": 429, "headers": headers, "quota_spent": true } })
}

async fn frozen_ms(worker: &Worker, limit: &str) -> f64 {
    worker.limit(limit).await.frozen_ms
}

#[tokio::test]
async fn one_worker_stops_its_own_limits_for_a_minute_and_an_operator_ends_that() {
    let (nats, _running, worker) = Worker::beside_scheduler(HUB).await;
    worker.ask(json!([{ "id": "a" }, { "id": "b" }])).await;
    let mut events = worker.events().await;

    for id in ["a", "b"] {
        worker.settle(lie(id, "99999999")).await;
        let frozen = frozen_ms(&worker, "few").await;
        assert!((50_000.0..=60_000.0).contains(&frozen), "{id}: {frozen}");
    }
    assert_eq!(frozen_ms(&worker, "units").await, 0.0, "its calls took nothing of that");
    let waits = worker.ask(json!({})).await["delay_ms"].as_f64().unwrap();
    assert!(waits <= 60_000.0, "{waits}");

    let thaw = async |limit| printed_at(&nats, &["thaw", "hub", limit]).await;
    assert_eq!(thaw("few").await.as_deref(), Ok("hub: few thawed\n"));
    assert_eq!(frozen_ms(&worker, "few").await, 0.0);
    let reported = event(&mut events, "thaw").await;
    assert_eq!((&reported["limits"], &reported["epoch"]), (&json!(["few"]), &json!(1)));
    assert_eq!(thaw("few").await.as_deref(), Ok("hub: nothing is paused\n"));
    let errors = thaw("fwe").await.unwrap_err();
    assert!(errors.contains("`limit`: no such limit; there are `few`, `in-flight`, `units`"), "{errors}");
    let granted = worker.ask(json!({ "mode": "allow", "cost": { "processing-units": 1, "requests": 0 } })).await;
    assert_eq!(granted["status"], "granted", "{granted}");
}

/// The units of a cost say nothing about the response of the upstream.
#[tokio::test]
async fn a_settle_with_a_wrong_unit_counts_as_far_as_it_can() {
    let (_nats, running, worker) = Worker::beside_scheduler(HUB).await;
    worker.ask(json!([{ "id": "a" }, { "id": "b" }])).await;
    assert_eq!(worker.limit("in-flight").await.level, 8.0);
    let settle = |id: &str| {
        let response = json!({ "status": 429, "headers": { "retry-after": "5" } });
        json!({ "id": id, "cost": { "tokens": 1, "requests": 1 }, "response": response })
    };
    let refused = worker.settle(settle("a")).await;
    assert_eq!((&refused["status"], &refused["code"]), (&json!("refused"), &json!("unknown_unit")), "{refused}");
    assert!(refused["message"].as_str().unwrap().starts_with("`cost.tokens`"), "{refused}");
    assert_eq!(worker.status().await.counters.upstream_429, 1);
    assert!(frozen_ms(&worker, "few").await > 0.0);
    assert_eq!(worker.limit("in-flight").await.level, 9.0, "its place is free");
    // A settle without a reply subject counts, too.
    worker.tell("settle", settle("b").to_string()).await;
    let status = worker.status().await;
    assert_eq!((status.counters.upstream_429, status.counters.settled), (2, 2));
    assert_eq!(worker.limit("in-flight").await.level, 10.0);
    let page = scheduler::metrics(&running).await;
    let counted = page.value("rampmeter_refused_settles_total", &[("resource", "hub"), ("code", "unknown_unit")]);
    assert_eq!(counted, 2.0);
}

#[tokio::test]
async fn a_quota_that_is_spent_by_word_is_logged_shown_and_thawed() {
    let hub = HUB.replace("name = \"units\",", "name = \"units\", algorithm = \"quota\", resets = \"never\",");
    let hub = hub.replace("capacity = 100, period = \"400h\", margin = 0 },\n]", "capacity = 100 },\n]");
    let (nats, process, worker) = Worker::beside_process(RAMPMETER, &hub).await;
    let asked = |id: &str| json!({"id": id, "cost": {"processing-units": 1}});
    for id in ["a", "b"] {
        worker.ask(asked(id)).await;
        worker.settle(json!({"id": id, "response": {"status": 403, "headers": {"retry-after": "2764800"}, "quota_spent": true}})).await;
    }
    let refused = worker.ask(asked("c")).await;
    assert_eq!((&refused["code"], &refused["limited_by"]), (&json!("quota_spent"), &json!("units")), "{refused}");
    let spent = worker.limit("units").await;
    assert_eq!(spent.paused_by.map(|by| json!(by)), Some(json!("quota")), "{spent:?}");
    let log = process.log();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("paused for a minute on one client's word")).collect();
    assert!(lines.len() == 1 && lines[0].contains("WARN") && lines[0].contains("\"limit\":\"units\""), "{log}");
    assert_eq!(printed_at(&nats, &["thaw", "hub", "units"]).await.as_deref(), Ok("hub: units thawed\n"));
    assert_eq!(worker.ask(asked("d")).await["status"], "granted");
    process.stop().await;
}
