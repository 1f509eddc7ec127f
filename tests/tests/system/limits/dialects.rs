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

struct Stage {
    worker: Worker,
    scheduler: Running,
    nats: Server,
}

async fn stage(resources: &str) -> Stage {
    let (nats, scheduler, worker) = Worker::beside_scheduler(resources).await;
    Stage { worker, scheduler, nats }
}

async fn level(worker: &Worker, limit: &str) -> f64 {
    (worker.limit(limit).await.level * 100.0).round() / 100.0
}

#[tokio::test]
async fn what_the_upstream_says_a_call_cost_is_what_it_cost() {
    let Stage { worker, .. } = &stage(HUB).await;
    let spent = |units: &str| json!({"status": 200, "headers": {"X-ProcessingUnits-Spent": units}});
    #[rustfmt::skip]
    let table = [
        // the estimate, what the worker settles, and what is left then
        (10,    json!({"response": spent("2.5")}),                                                     97.5),
        (10,    json!({"response": spent("12.5")}),                                                    85.0),
        // If the worker knows the cost, its word counts. If the header can't be read or is missing,
        // the estimate counts.
        (10,    json!({"response": spent("1"), "cost": {"processing-units": 5}}),                      80.0),
        (10,    json!({"response": spent("1"), "cost": {"requests": 1}}),                              79.0),
        (10,    json!({"response": spent("lots")}),                                                    69.0),
        (10,    json!({"response": {"status": 200}}),                                                  59.0),
        // No call was made, so nothing was spent, whatever the response says.
        (10,    json!({"response": spent("5"), "used": false}),                                        59.0),
    ];
    for (number, (estimate, mut settle, left)) in table.into_iter().enumerate() {
        let id = format!("call-{number}");
        worker.ask(json!({"id": id, "cost": {"processing-units": estimate}})).await;
        settle["id"] = Value::from(id);
        assert_eq!(worker.settle(settle.clone()).await["status"], "settled", "{settle}");
        assert_eq!(level(worker, "units").await, left, "{settle}");
    }
}

#[tokio::test]
async fn answers_and_what_cannot_be_read_of_them_are_counted() {
    let Stage { worker, scheduler, .. } = &stage(HUB).await;
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
    let page = Page::parse(&scheduler::page(scheduler, "/metrics").await.1).unwrap();
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

/// What a worker settles over HTTP, and for how many seconds calls pause then.
async fn check_pauses(table: &[(&str, Value, f64)]) {
    let resource = |(number, (more, ..)): (usize, &(&str, Value, f64))| {
        let (lines, tables) =
            more.split_once("\n[").map_or((*more, String::new()), |(lines, rest)| (lines, format!("[{rest}")));
        format!("[[resource]]\nname = \"api{number}\"\n{lines}\n{LIMIT}\n{tables}\n")
    };
    let resources: String = table.iter().enumerate().map(resource).collect();
    let (nats, front) = Front::alone("", &resources).await;
    for (number, (more, response, seconds)) in table.iter().enumerate() {
        let asked = front.post(&format!("/v1/permit/api{number}"), r#"{"id": "a"}"#).await;
        assert_eq!(asked.status, 200, "{response}");
        let settle = json!({"id": "a", "response": response}).to_string();
        let settled = front.post(&format!("/v1/settle/api{number}"), settle).await;
        assert_eq!(settled.status, 200, "{response}");
        let worker = Worker::connect(&nats, &format!("api{number}")).await;
        let paused = worker.limit("per-minute").await.frozen_ms / 1000.0;
        // Some time may have passed since.
        assert!(
            (*seconds - 8.0..=*seconds + 0.5).contains(&paused) && (paused > 0.0) == (*seconds > 0.0),
            "{more} {response}: {paused}"
        );
    }
}

const LIMIT: &str = "limit = [{ name = \"per-minute\", capacity = 100, period = \"1m\", margin = 0 }]";
/// When the answers below were written, by the clock of a server.
const DATE: &str = "Wed, 21 Oct 2026 07:28:00 GMT";

#[tokio::test]
async fn a_refusal_pauses_calls_for_as_long_as_it_says_in_any_notation() {
    let told = |status: u16, headers: Value| json!({"status": status, "headers": headers});
    let many =
        |count: usize| (0..count).map(|number| (format!("x-{number}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    let mut crowd = many(70);
    crowd.insert("Set-Cookie".to_owned(), json!("secret"));
    crowd.insert("retry-after".to_owned(), json!("20"));
    #[rustfmt::skip]
    check_pauses(&[
        ("", told(429, json!({"X-Rate-Limit-Remaining": "0", "X-Rate-Limit-Reset": "1792567725", "Date": DATE})), 45.0),
        ("", told(429, json!({"x-rate-limit-limit": "100", "x-rate-limit-remaining": "0", "x-rate-limit-reset": "45"})), 45.0),
        ("", told(429, json!({"X-Ratelimit-Used": "996", "X-Ratelimit-Remaining": "0.0", "X-Ratelimit-Reset": "37"})), 37.0),
        ("", told(429, json!({"retry-after-ms": "22000"})),                                 22.0),
        ("", told(429, json!({"Retry-After": "2026-10-21T07:28:30Z", "date": DATE})),       30.0),
        ("", told(429, json!({"Retry-After": "Wed, 21 Oct 2026 07:28:30 UTC", "Date": DATE})), 30.0),
        ("", told(429, json!({"Retry-After": "38s"})),                                      38.0),
        ("", told(429, json!({"Retry-After": "30, 30"})),                                   30.0),
        ("", told(429, json!({"Retry-After": 30})),                                         30.0),
        ("", told(429, json!({"Retry-After": ["20", 30]})),                                 30.0),
        ("", told(429, Value::Object(crowd)),                                               20.0),
        ("dialect = \"sentinel-hub\"", told(429, json!({"Retry-After": "30000"})),          30.0),
        ("dialect = \"plain\"", told(429, json!({"Retry-After": "30"})),                    30.0),
        ("dialect = \"github\"", told(429, json!({"ratelimit-remaining": "0", "ratelimit-reset": "30"})), 30.0),
        ("\n[resource.headers]\nremaining = \"x-quota-left\"\nreset = \"x-quota-again\"\nreset_unit = \"milliseconds\"",
            told(429, json!({"X-Quota-Left": "0", "X-Quota-Again": "25000"})),              25.0),
    ])
    .await;
}

#[tokio::test]
async fn objections_are_told_by_status_code_and_header() {
    let told =
        |status: u16, code: &str, wait: &str| json!({"status": status, "code": code, "headers": {"retry-after": wait}});
    let wait = |status: u16| json!({"status": status, "headers": {"retry-after": "20"}});
    let objection = "\n[[resource.objection]]\nheader = \"x-throttled-by: app*\"\nmeans = \"pause\"\npause = \"30s\"";
    let throttled = json!({"status": 200, "headers": {"X-Throttled-By": "Application"}});
    #[rustfmt::skip]
    check_pauses(&[
        ("dialect = \"anthropic\"",     wait(529),                                          20.0),
        ("dialect = \"openai\"",        wait(503),                                          20.0),
        ("dialect = \"plain\"",         wait(420),                                          20.0),
        ("",                            wait(599),                                          20.0),
        ("",                            wait(200),                                          0.0),
        ("dialect = \"github\"",        told(200, "RATE_LIMITED", "20"),                    20.0),
        ("dialect = \"github\"",        told(403, "secondary_rate_limit", "20"),            20.0),
        ("dialect = \"shopify\"",       told(200, "THROTTLED", "20"),                       20.0),
        ("",                            told(200, "userRateLimitExceeded", "20"),           20.0),
        ("",                            told(200, "ThrottlingException", "20"),             20.0),
        ("dialect = \"anthropic\"",     told(200, "rate_limit_error", "20"),                20.0),
        ("",                            told(429, "lock_timeout", "20"),                    0.0),
        ("",                            told(429, "insufficient_quota", "20"),              0.0),
        ("",                            told(429, "content_filter", "20"),                  0.0),
        (objection,                     throttled,                                          30.0),
    ])
    .await;
}

/// A reset of 37 s is not a moment in 1970: nothing is left until then.
#[tokio::test]
async fn a_reset_that_is_a_time_from_now_ends_a_window() {
    let file = r#"
        [[resource]]
        name = "hub"
        start = "full"
        limit = [{ name = "few", algorithm = "fixed-window", capacity = 100, period = "1m", margin = 0 }]
    "#;
    let Stage { worker, .. } = &stage(file).await;
    worker.ask(json!({"id": "a"})).await;
    let headers = json!({"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "37"});
    worker.settle(json!({"id": "a", "response": {"status": 200, "headers": headers}})).await;
    let limit = worker.limit("few").await;
    assert!(limit.level <= 0.0 && limit.next_free_ms > 5_000.0, "{limit:?}");
}

/// With the upstream's own headers: the SDK sends them on, and the scheduler reads them.
#[tokio::test]
async fn every_header_of_an_upstream_reaches_the_scheduler_and_is_read() {
    for (name, dialect) in
        [("sentinel-hub", Dialect::SentinelHub), ("ietf", Dialect::Ietf), ("openai", Dialect::Openai)]
    {
        let upstream = upstream_with(&["requests=1/PT1H", "processing-units=100/PT1H"], dialect).await;
        let Stage { worker, scheduler, nats } = &stage(&HUB.replace("\"sentinel-hub\"", &format!("\"{name}\""))).await;
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
            let level = level(worker, "units").await;
            assert!(level <= most && (settled == 2 || level == left), "{name}: {level}");
        }
        let (_, metrics) = scheduler::page(scheduler, "/metrics").await;
        assert!(!metrics.contains("rampmeter_unreadable_headers_total{"), "{name}: {metrics}");
    }
}
