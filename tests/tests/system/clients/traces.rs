//! Spans of requests for permits, as an OpenTelemetry collector gets them.

use crate::prelude::*;
use async_nats::HeaderMap;
use rampmeter_tests::collector::{Collector, Span};
use rampmeter_tests::tracer::{Tracer, remote};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

const HUB: &str = "[[resource]]\nname = \"hub\"\nstart = \"full\"\nclasses = [{ name = \"urgent\" }]\n\
                   [[resource.limit]]\nname = \"few\"\ncapacity = 2\nperiod = \"1s\"\nmargin = 0\n\
                   [[resource.limit]]\nname = \"units\"\nunit = \"pu\"\ncapacity = 1000\nperiod = \"1s\"\nmargin = 0\n";

/// A trace context whose sender records it or not.
fn traceparent(sampled: bool) -> String {
    format!("00-{TRACE}-{PARENT}-0{}", u8::from(sampled))
}

/// A configuration with these keys of `[telemetry]` beside the collector.
fn configuration(nats: &Server, otlp: &str, keys: &str) -> String {
    format!("{}[telemetry]\notlp = \"{otlp}\"\n{keys}\n", scheduler::configuration(nats.url(), HUB))
}

/// A scheduler whose spans go to a collector, and a worker.
struct Stage {
    nats: Server,
    collector: Collector,
    process: Process,
    worker: Worker,
}

impl Stage {
    async fn set(keys: &str) -> Self {
        let (nats, collector) = (nats::start().await, Collector::start().await);
        let process = Process::start_with(RAMPMETER, &configuration(&nats, collector.url(), keys), &[]).await;
        let worker = Worker::connect(&nats, "hub").await;
        Stage { nats, collector, process, worker }
    }

    /// The answer to `payload` at `what`, sent with these headers.
    async fn send(&self, what: &str, headers: HeaderMap, payload: &Value) -> Value {
        let client = self.worker.client();
        let asking = client.request_with_headers(self.worker.subject(what), headers, payload.to_string().into());
        serde_json::from_slice(&within("an answer", asking).await.unwrap().payload).unwrap()
    }

    async fn metric(&self, name: &str) -> f64 {
        let url = format!("{}/metrics", self.process.http().unwrap());
        Page::parse(&scheduler::get(&url).await.1).unwrap().value(name, &[])
    }
}

fn headers(values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    values.iter().for_each(|value| headers.append("traceparent", *value));
    headers
}

/// Checks ids and parent of a span in the trace of the tests.
fn assert_part_of_the_trace(span: &Span) {
    assert_eq!((&*span.trace, &*span.parent), (TRACE, PARENT), "{span:#?}");
    assert!(span.id.len() == 16 && span.id != PARENT && span.start <= span.end, "{span:#?}");
}

#[tokio::test]
async fn a_permit_and_its_settle_are_spans_of_the_callers_trace() {
    let stage = Stage::set("sample = 0.0\nservice = \"permits\"").await;
    let mut sent = headers(&[&traceparent(true)]);
    sent.insert("tracestate", "vendor=1");
    let request = json!({"id": "secret-id", "cost": {"requests": 1, "pu": 2.5}, "class": "urgent",
                         "labels": {"client": "team-a"}, "mode": "allow"});
    assert_eq!(stage.send("permit", sent, &request).await["status"], "granted");
    let permit = stage.collector.span("permit hub").await;
    assert_part_of_the_trace(&permit);
    assert_eq!((permit.kind, &*permit.state, &permit.error), (2, "vendor=1", &None));
    let expected = [
        ("rampmeter.resource", json!("hub")),
        ("rampmeter.class", json!("urgent")),
        ("rampmeter.mode", json!("allow")),
        ("rampmeter.result", json!("acquired")),
        ("rampmeter.wait", json!(0.0)),
        ("rampmeter.delay", json!(0.0)),
        ("rampmeter.cost.estimate.requests", json!(1.0)),
        ("rampmeter.cost.estimate.pu", json!(2.5)),
    ];
    assert_eq!(permit.attributes, expected.map(|(key, value)| (key.to_owned(), value)).into());
    assert_eq!(permit.process["service.name"], "permits");
    let settle = json!({"id": "secret-id", "cost": {"pu": 3}, "elapsed_ms": 250,
                        "response": {"status": 429, "headers": {"retry-after": "2"}}});
    assert_eq!(stage.send("settle", HeaderMap::new(), &settle).await["status"], "settled");
    let settled = stage.collector.span("settle hub").await;
    assert_eq!((&*settled.trace, &settled.parent, settled.kind), (TRACE, &permit.id, 5));
    assert_eq!(settled.links, [(TRACE.to_owned(), permit.id.clone())]);
    assert_eq!(settled.error.as_deref(), Some("429"));
    let expected = [
        ("rampmeter.resource", json!("hub")),
        ("rampmeter.result", json!("used")),
        ("http.response.status_code", json!(429)),
        ("error.type", json!("429")),
        ("rampmeter.call.duration", json!(0.25)),
        ("rampmeter.cost.actual.pu", json!(3.0)),
    ];
    assert_eq!(settled.attributes, expected.map(|(key, value)| (key.to_owned(), value)).into());
    let line = until("the log tells the 429", async || {
        stage.process.log().lines().find(|line| line.contains("the upstream asked for 2 s at ")).map(str::to_owned)
    })
    .await;
    assert!(line.contains(TRACE), "the log tells the trace: {line}");
    assert!(!format!("{:?}", stage.collector.spans()).contains("secret-id"), "ids are secrets");
    // A request that waits for the end of the pause is linked from the 429.
    let waiting = json!({"mode": "wait", "cost": {"requests": 1}});
    assert_eq!(stage.send("permit", headers(&[&traceparent(true)]), &waiting).await["status"], "granted");
    let waited = stage.collector.spans_named("permit hub", 2).await.pop().unwrap();
    assert_eq!(waited.links, [(TRACE.to_owned(), settled.id)]);
    assert_eq!(waited.attributes["rampmeter.queue.reason"], "frozen");
    assert_eq!(waited.attributes["rampmeter.queue.position"], 0);
    assert!(waited.attributes.contains_key("rampmeter.queue.limit"), "{waited:#?}");
    assert!(waited.attributes["rampmeter.wait"].as_f64().unwrap() > 0.5, "{waited:#?}");
    stage.process.stop().await;
}

#[tokio::test]
async fn a_refusal_is_an_error_with_its_code() {
    let stage = Stage::set("sample = 1.0").await;
    for _ in 0..3 {
        stage.send("permit", HeaderMap::new(), &json!({"mode": "allow"})).await;
    }
    let spans = stage.collector.spans_named("permit hub", 3).await;
    let refused: Vec<&Span> = spans.iter().filter(|span| span.error.is_some()).collect();
    let [refused] = refused[..] else { panic!("{spans:#?}") };
    assert_eq!((refused.error.as_deref(), refused.parent.as_str()), (Some("not_in_time"), ""));
    assert_eq!(
        (&refused.attributes["error.type"], &refused.attributes["rampmeter.limit"]),
        (&json!("not_in_time"), &json!("few"))
    );
    let traces: BTreeSet<&str> = spans.iter().map(|span| &*span.trace).collect();
    assert_eq!(traces.len(), 3, "each begins a trace of its own");
}

#[tokio::test]
async fn hostile_headers_are_passed_over() {
    let stage = Stage::set("sample = 0.0").await;
    let long = format!("cc-{TRACE}-{PARENT}-01-{}", "x".repeat(60_000));
    let (upper, zero) = (traceparent(true).to_uppercase(), format!("00-{}-{PARENT}-01", "0".repeat(32)));
    for hostile in ["", "-", "\u{1F600}", &long, &upper, &zero] {
        let answer = stage.send("permit", headers(&[hostile]), &json!({"cost": {"pu": 1}})).await;
        assert_eq!(answer["status"], "granted", "{hostile:.40}");
    }
    let many: Vec<String> = (0..5000).map(|_| traceparent(true)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let answer = stage.send("permit", headers(&many), &json!({"cost": {"pu": 7, "secret-unit": 1}})).await;
    assert_eq!(answer["code"], "unknown_unit");
    let mut sent = headers(&[&traceparent(true)]);
    sent.insert("tracestate", "s".repeat(513));
    stage.send("permit", sent, &json!({"cost": {"pu": 8}, "class": "no-class-of-ours"})).await;
    let spans = stage.collector.spans_named("permit hub", 2).await;
    assert_eq!(spans.len(), 2, "{spans:#?}");
    assert!(spans.iter().all(|span| span.state.is_empty() && span.error.is_some()), "{spans:#?}");
    let shown = format!("{spans:?}");
    assert!(!shown.contains("secret-unit") && !shown.contains("no-class-of-ours"), "{shown}");
}

#[tokio::test]
async fn the_front_passes_the_context_on() {
    let stage = Stage::set("sample = 0.0").await;
    let url = format!("{}/v1/permit/hub", stage.process.http().unwrap());
    let asked = http().post(url).header("traceparent", traceparent(true)).json(&json!({"mode": "allow"}));
    assert!(asked.send().await.unwrap().status().is_success());
    assert_part_of_the_trace(&stage.collector.span("permit hub").await);
}

#[tokio::test]
async fn the_last_spans_are_sent_at_the_stop() {
    let stage = Stage::set("sample = 1.0").await;
    let (worker, collector) = (stage.worker.clone(), stage.collector.clone());
    assert_eq!(worker.ask(json!({"cost": {"pu": 1}})).await["status"], "granted");
    stage.process.stop().await;
    assert_eq!(collector.spans().len(), 1);
}

#[tokio::test]
async fn an_absent_collector_stops_nothing_and_lost_spans_are_counted() {
    let nats = nats::start().await;
    // Nothing listens on this port of the loopback: it is reserved.
    let configuration = configuration(&nats, "http://127.0.0.1:1", "sample = 1.0");
    let process = Process::start_with(RAMPMETER, &configuration, &[]).await;
    let worker = Worker::connect(&nats, "hub").await;
    let page = async || {
        let text = scheduler::get(&format!("{}/metrics", process.http().unwrap())).await.1;
        Page::parse(&text).unwrap().value("rampmeter_lost_spans_total", &[])
    };
    let mut asked = 0.0;
    until("a span is lost", async || {
        assert_eq!(worker.ask(json!({"cost": {"pu": 0.001}})).await["status"], "granted");
        asked += 1.0;
        (page().await > 0.0).then_some(())
    })
    .await;
    assert!(page().await <= asked, "no more are lost than were made");
    let told = || process.log().matches("the collector does not take spans").count();
    until("the log tells it", async || (told() > 0).then_some(())).await;
    assert_eq!(told(), 1);
    process.stop().await;
}

#[tokio::test]
async fn a_collector_that_comes_back_gets_what_it_refused() {
    let stage = Stage::set("sample = 1.0").await;
    stage.collector.refuse(&[503]);
    stage.worker.ask(json!({"cost": {"pu": 1}})).await;
    stage.collector.span("permit hub").await;
    assert_eq!(stage.metric("rampmeter_lost_spans_total").await, 0.0);
}

#[tokio::test]
async fn what_the_collector_is_shown_stays_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("headers");
    std::fs::write(&file, "authorization=Basic%20canary,x-team=canary").unwrap();
    let stage = Stage::set(&format!("sample = 1.0\nheaders_file = \"{}\"", file.display())).await;
    stage.worker.ask(json!({"cost": {"pu": 1}})).await;
    let span = stage.collector.span("permit hub").await;
    let shown = stage.collector.headers().remove(0);
    assert!(shown["authorization"] == "Basic canary" && shown["x-team"] == "canary", "{shown:?}");
    assert!(!format!("{span:?}{}", stage.process.log()).contains("canary"));
}

/// Each test of workers has a trace of its own, because they share the tracer of the process.
const TRACE_OF_WORKER: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const TRACE_OF_REFUSAL: &str = "4bf92f3577b34da6a3ce929d0e0e4737";

#[tokio::test]
async fn a_worker_with_opentelemetry_is_the_parent_of_the_scheduler() {
    let (stage, tracer) = (Stage::set("sample = 0.0").await, Tracer::of_process());
    let client = Client::connect(stage.nats.url()).await.unwrap();
    let hub = client.resource("hub").unwrap();
    let call = {
        let _current = remote(TRACE_OF_WORKER, PARENT).attach();
        hub.acquire(Cost::requests(1).and("pu", 2)).class("urgent").await.unwrap().begin()
    };
    let [own] = &tracer.ended(TRACE_OF_WORKER)[..] else { panic!("the call has begun") };
    assert_eq!((&*own.name, &*own.parent), ("permit hub", PARENT));
    for (key, value) in [
        ("rampmeter.resource", "hub"),
        ("rampmeter.class", "urgent"),
        ("rampmeter.mode", "wait"),
        ("rampmeter.result", "acquired"),
        ("rampmeter.cost.estimate.pu", "2"),
    ] {
        assert_eq!(own.attributes[key], value, "{own:#?}");
    }
    let permit = stage.collector.span("permit hub").await;
    assert_eq!((&*permit.trace, &permit.parent), (TRACE_OF_WORKER, &own.id));
    call.settle(Outcome::status(200).cost(Cost::of("pu", 3)));
    let settled = stage.collector.span("settle hub").await;
    assert_eq!((&*settled.trace, &settled.parent), (TRACE_OF_WORKER, &own.id));
    assert_eq!(settled.links, [(TRACE_OF_WORKER.to_owned(), permit.id)]);
    assert_eq!(settled.attributes["rampmeter.cost.actual.pu"], 3.0);
    client.close().await;
}

#[tokio::test]
async fn a_worker_that_is_refused_or_gives_up_ends_its_span() {
    let (stage, tracer) = (Stage::set("sample = 0.0").await, Tracer::of_process());
    let client = Client::connect(stage.nats.url()).await.unwrap();
    let hub = client.resource("hub").unwrap();
    let _current = remote(TRACE_OF_REFUSAL, PARENT).attach();
    hub.try_acquire(Cost::of("pu", 5000)).await.unwrap_err();
    let given_up = hub.acquire(Cost::of("pu", 1));
    assert!(given_up.into_future().now_or_never().is_none(), "one look brings no answer");
    let results = |key: &str| {
        let ended = tracer.ended(TRACE_OF_REFUSAL);
        ended.iter().map(|span| span.attributes.get(key).cloned().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(results("rampmeter.result"), ["refused", "cancelled"]);
    assert_eq!(results("error.type"), ["never_fits", ""]);
    client.close().await;
}

/// An upstream that tells the trace context which it sees.
async fn telling_upstream() -> String {
    let tell = async |headers: http::HeaderMap| {
        headers.get("traceparent").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    serve(axum::Router::new().fallback(tell)).await
}

#[tokio::test]
async fn the_proxy_is_a_part_of_the_clients_trace_and_the_upstream_of_its_own() {
    let (nats, collector, upstream) = (nats::start().await, Collector::start().await, telling_upstream().await);
    let proxy = format!("[[proxy]]\nlisten = \"127.0.0.1:0\"\nupstream = \"{upstream}\"\nresource = \"hub\"\n");
    let configuration = format!("{}{proxy}", configuration(&nats, collector.url(), "sample = 0.0"));
    let mut process = Process::start_with(RAMPMETER, &configuration, &[]).await;
    let url = process.until_it_holds().await;
    let asked = http().get(format!("{url}/secret-path")).header("traceparent", traceparent(true));
    let seen = asked.send().await.unwrap().text().await.unwrap();
    let proxied = collector.span("GET -").await;
    assert_part_of_the_trace(&proxied);
    assert_eq!(seen, format!("00-{TRACE}-{}-01", proxied.id));
    let attribute = |key: &str| proxied.attributes[key].clone();
    assert_eq!((attribute("http.request.method"), attribute("http.response.status_code")), (json!("GET"), json!(200)));
    assert_eq!((attribute("http.route"), attribute("http.request.resend_count")), (json!("-"), json!(0)));
    let permit = collector.span("permit hub").await;
    assert_eq!((&*permit.trace, &permit.parent), (TRACE, &proxied.id));
    assert_eq!(collector.span("settle hub").await.attributes["http.response.status_code"], 200);
    assert!(!format!("{:?}", collector.spans()).contains("secret-path"));
    // A context that is not recorded passes as it is.
    let asked = http().get(&url).header("traceparent", traceparent(false));
    assert_eq!(asked.send().await.unwrap().text().await.unwrap(), traceparent(false));
    process.stop().await;
    assert_eq!(collector.spans().len(), 3);
}
