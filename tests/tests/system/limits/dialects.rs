//! The upstream's responses, from a worker's settle to the levels, the log and the metrics.

use crate::prelude::*;

/// A hundred units; tests end before any of them refills.
const HUB: &str = r#"
[[resource]]
name = "hub"
dialect = "sentinel-hub"
limit = [
    { name = "few", capacity = 100, period = "4000h", margin = 0 },
    { name = "units", unit = "processing-units", capacity = 100, period = "4000h", margin = 0 },
]
"#;

async fn level(worker: &Worker, limit: &str) -> f64 {
    (worker.limit(limit).await.level * 100.0).round() / 100.0
}

#[tokio::test]
async fn what_the_upstream_says_a_call_cost_is_what_it_cost() {
    let (_nats, _running, worker) = Worker::beside_scheduler(HUB).await;
    let spent = |units: &str| json!({"status": 200, "headers": {"X-ProcessingUnits-Spent": units}});
    #[rustfmt::skip]
    let table = [
        // the estimate, what the worker settles, and what is left then
        (10,    json!({"response": spent("2.5")}),                                                     97.5),
        // If the worker knows the cost, its word counts. If the header can't be read or is missing,
        // the estimate counts.
        (10,    json!({"response": spent("1"), "cost": {"processing-units": 5}}),                      92.5),
        (10,    json!({"response": spent("lots")}),                                                    82.5),
        (10,    json!({"response": {"status": 200}}),                                                  72.5),
        // No call was made, so nothing was spent, whatever the response says.
        (10,    json!({"response": spent("5"), "used": false}),                                        72.5),
    ];
    for (number, (estimate, mut settle, left)) in table.into_iter().enumerate() {
        let id = format!("call-{number}");
        worker.ask(json!({"id": id, "cost": {"processing-units": estimate}})).await;
        settle["id"] = Value::from(id);
        assert_eq!(worker.settle(settle.clone()).await["status"], "settled", "{settle}");
        assert_eq!(level(&worker, "units").await, left, "{settle}");
    }
}

#[tokio::test]
async fn answers_and_what_cannot_be_read_of_them_are_counted() {
    let (_nats, running, worker) = Worker::beside_scheduler(HUB).await;
    worker.ask(json!([{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}, {"id": "e"}, {"id": "f"}])).await;
    let answer = |status: u16, name: &str, value: &str| json!({"status": status, "headers": {name: value}});
    worker
        .settle(json!([
            {"id": "a", "response": answer(429, "retry-after", "soon")},
            {"id": "b", "response": answer(429, "Retry-After", &"never ".repeat(20))},
            {"id": "c", "response": answer(200, "x-processingunits-spent", "?")},
            {"id": "d", "response": answer(200, "x-ratelimit-reset", "soon")},
            // None that speaks of limits.
            {"id": "e", "response": answer(200, "x-reset", "soon")},
            {"id": "f", "response": answer(429, "Retry-After", &"never ".repeat(20))},
        ]))
        .await;
    let page = scheduler::metrics(&running).await;
    let hub = ("resource", "hub");
    #[rustfmt::skip]
    let table = [
        ("rampmeter_upstream_answers_total",    vec![hub, ("status", "2xx")],                       3.0),
        ("rampmeter_upstream_answers_total",    vec![hub, ("status", "4xx")],                       3.0),
        ("rampmeter_upstream_answers_total",    vec![hub, ("status", "5xx")],                       0.0),
        ("rampmeter_unreadable_headers_total",  vec![hub, ("header", "retry-after")],               3.0),
        ("rampmeter_unreadable_headers_total",  vec![hub, ("header", "x-processingunits-spent")],   1.0),
        ("rampmeter_unreadable_headers_total",  vec![hub, ("header", "x-ratelimit-reset")],         1.0),
    ];
    for (sample, labels, value) in table {
        assert_eq!(page.value(sample, &labels), value, "{sample} {labels:?}");
    }
    let last = worker.status().await.unreadable.unwrap();
    assert_eq!((&*last.header, &*last.value), ("retry-after", &"never ".repeat(11)[..64]));
}

/// With the upstream's own headers: the SDK sends them on, and the scheduler reads them.
#[tokio::test]
async fn every_header_of_an_upstream_reaches_the_scheduler_and_is_read() {
    for (name, dialect) in
        [("sentinel-hub", Dialect::SentinelHub), ("ietf", Dialect::Ietf), ("openai", Dialect::Openai)]
    {
        let upstream = upstream_with(&["requests=1/PT1H", "processing-units=100/PT1H"], dialect).await;
        let hub = HUB.replace("\"sentinel-hub\"", &format!("\"{name}\""));
        let (nats, running, worker) = Worker::beside_scheduler(&hub).await;
        let client = Client::connect(nats.url()).await.unwrap();
        let hub = client.resource("hub").unwrap();
        let acquire = || hub.acquire(Cost::of("processing-units", 10)).into_future();
        let permits = [within("a permit", acquire()).await.unwrap(), within("another", acquire()).await.unwrap()];
        // The first call costs what its answer says, if it says so. The second is charged its
        // estimate, and rejected.
        let left = if dialect == Dialect::SentinelHub { 87.5 } else { 80.0 };
        for (permit, (settled, most)) in permits.into_iter().zip([(1, left), (2, 100.0)]) {
            let call = permit.begin();
            let answer = Api::new(&upstream).call(&BTreeMap::from([("processing-units", 2.5)])).await.unwrap();
            assert_eq!(answer.is_throttled(), settled == 2);
            call.settle(answer);
            until("it is settled", async || (worker.status().await.counters.settled == settled).then_some(())).await;
            let level = level(&worker, "units").await;
            assert!(level <= most && (settled == 2 || level == left), "{name}: {level}");
        }
        let (_, metrics) = scheduler::page(&running, "/metrics").await;
        assert!(!metrics.contains("rampmeter_unreadable_headers_total{"), "{name}: {metrics}");
    }
}
