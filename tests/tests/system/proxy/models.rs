//! Requests to language models through the proxy: what they cost, however long they are, and which
//! calls cost nothing of it.

use crate::prelude::*;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header::CONTENT_TYPE;
use rampmeter_tests::process::{run, run_in};

/// Two units of tokens that do not come back while a test runs.
const ANTHROPIC: &str = "[[resource]]\nname = \"api\"\ndialect = \"anthropic\"\nstart = \"full\"\n\
    [[resource.limit]]\nname = \"in\"\nunit = \"input-tokens\"\ncapacity = 1000000\nperiod = \"8760h\"\nmargin = 0\n\
    [[resource.limit]]\nname = \"out\"\nunit = \"output-tokens\"\ncapacity = 1000000\nperiod = \"8760h\"\nmargin = 0\n\
    [[resource.limit]]\nname = \"calls\"\ncapacity = 1000000\nperiod = \"8760h\"\nmargin = 0\n";

/// The limits that `init` writes, full and hourly, with the capacity of `requests` and `tokens`.
async fn preset(name: &str, requests: u32, tokens: u32) -> String {
    let written = String::from_utf8(run(RAMPMETER, &["init", name]).await.stdout).unwrap();
    let mut capacities = [requests, tokens, tokens].into_iter();
    let lines = written.lines().map(|line| match line {
        line if line.starts_with("capacity") => format!("capacity = {}", capacities.next().unwrap()),
        line if line.starts_with("period") => "period = \"1h\"\nmargin = 0".to_owned(),
        line if line.starts_with("dialect") => format!("{line}\nstart = \"full\""),
        line => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A model that reads any request, and gives this answer.
pub(super) async fn model(content_type: &'static str, answer: impl Into<String>) -> String {
    let answer = answer.into();
    let answering = async move |_read: bytes::Bytes| ([(CONTENT_TYPE, content_type)], answer);
    serve(Router::new().fallback(answering).layer(DefaultBodyLimit::disable())).await
}

pub(super) async fn proxy(limits: &str, upstream: &str, settings: &str) -> ProxyProcess {
    let text =
        format!("[http]\nlisten = \"\"\n[[proxy]]\nupstream = \"http://a\"\nmax_wait = \"2s\"\n{settings}\n{limits}");
    ProxyProcess::start(RAMPMETER, &text, &["--upstream", upstream], &[]).await
}

/// What the status of the proxy's scheduler says of its limits: what is left of each.
async fn levels(proxy: &ProxyProcess, resource: &str) -> Vec<f64> {
    let url = std::fs::read_to_string(proxy.data().join("nats-url")).unwrap();
    let shown = run_in(RAMPMETER, &["status", resource, "--json"], &[("RAMPMETER_NATS", url.trim())]).await;
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let status = if shown.is_array() { &shown[0] } else { &shown };
    let limits = status["limits"].as_array().unwrap();
    limits.iter().map(|limit| limit["level"].as_f64().unwrap()).collect()
}

async fn whole_levels(proxy: &ProxyProcess, resource: &str) -> Vec<f64> {
    levels(proxy, resource).await.into_iter().map(f64::round).collect()
}

pub(super) async fn levels_in_micros(proxy: &ProxyProcess, resource: &str) -> Vec<i64> {
    levels(proxy, resource).await.into_iter().map(|level| (level * 1e6).round() as i64).collect()
}

/// The status of an answer that is read to its end.
pub(super) async fn post(proxy: &ProxyProcess, path: &str, body: String) -> u16 {
    let answered = http().post(format!("{}{path}", proxy.url())).body(body).send().await.unwrap();
    let status = answered.status().as_u16();
    answered.bytes().await.unwrap();
    status
}

pub(super) fn chat(content: &str, most: u32) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":{content}}}],"max_tokens":{most},"model":"m"}}"#)
}

/// A body beyond `settings::MAX_SCANNED` is passed on, but does not tell what it costs.
#[tokio::test]
async fn a_body_that_is_not_understood_costs_the_default_or_is_refused() {
    let upstream = model("application/json", "{}").await;
    let limits = preset("openai", 100, 60_000).await;
    let metrics = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let served = proxy(&limits, &upstream, &format!("metrics = \"{metrics}\"")).await;
    let body = "no JSON, ".repeat(8000);
    for expected in [200, 200, 200, 429] {
        assert_eq!(post(&served, "/v1/chat/completions", body.clone()).await, expected);
    }
    let page = http().get(format!("http://{metrics}/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("rampmeter_proxy_unpriced_total 4\n"), "{page}");
    assert_eq!(served.log().matches("a body does not tell what its request costs").count(), 1, "{}", served.log());
    let refusing = proxy(&limits, &upstream, "on_unpriced = \"refuse\"").await;
    let refused = http().post(format!("{}/v1/responses", refusing.url())).body("no JSON").send().await.unwrap();
    assert_eq!(refused.status(), 422);
    assert!(refused.text().await.unwrap().contains("\"code\":\"not_understood\""));
    let long = chat(&format!("\"{}\"", "A".repeat(33 << 20)), 1);
    assert_eq!(post(&refusing, "/v1/chat/completions", long.clone()).await, 422);
    let free = preset("openai", 100, 10_000_000).await;
    let passing = proxy(&free, &upstream, "").await;
    assert_eq!(post(&passing, "/v1/chat/completions", long).await, 200);
    assert_eq!(post(&refusing, "/v1/files", "no JSON".to_owned()).await, 200, "a file costs no tokens");
}

/// Writing the cache counts, reading it does not.
#[tokio::test]
async fn a_call_is_settled_with_what_the_vendor_counts() {
    let picture = "A".repeat(5_000_000);
    let stream = "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":5,\"cache_creation_input_tokens\":20000,\"output_tokens\":1}}}\n\n\
                  event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":300}}\n\n";
    let json = "{\"usage\":{\"input_tokens\":7,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":20000,\"output_tokens\":300}}";
    #[rustfmt::skip]
    let table = [
        ("text/event-stream",   stream.to_owned(),                                                                      20_005, 300),
        ("application/json",    json.to_owned(),                                                                        7,      300),
        ("application/json",    format!("{{\"b64\":\"{picture}\",\"usage\":{{\"input_tokens\":70,\"output_tokens\":4000}}}}"), 70, 4000),
    ];
    for (content_type, answer, input, output) in table {
        let proxy = proxy(ANTHROPIC, &model(content_type, answer).await, "").await;
        assert_eq!(post(&proxy, "/v1/messages", chat("\"Count.\"", 50_000)).await, 200);
        let expected = vec![f64::from(1_000_000 - input), f64::from(1_000_000 - output), 999_999.0];
        until("the call is settled", async || (whole_levels(&proxy, "api").await == expected).then_some(())).await;
    }
}

/// The instructions take 20 000 tokens of 30 000, but the vendor keeps them.
#[tokio::test]
async fn what_the_vendor_keeps_of_a_prompt_is_not_estimated_again() {
    let usage = "{\"usage\":{\"input_tokens\":5,\"cache_creation_input_tokens\":20000,\"output_tokens\":1}}";
    let limits = ANTHROPIC.replacen("capacity = 1000000", "capacity = 30000", 1);
    let proxy = proxy(&limits, &model("application/json", usage).await, "").await;
    let ask = async |system: &str, message: &str| {
        let system = format!("{system} {}", "word".repeat(20_000));
        let body = json!({ "model": "m", "max_tokens": 9, "system": system, "messages": [{ "role": "user", "content": message }] });
        post(&proxy, "/v1/messages", body.to_string()).await
    };
    assert_eq!(ask("a", "Count.").await, 200);
    until("the call is settled", async || (whole_levels(&proxy, "api").await[0] == 9_995.0).then_some(())).await;
    assert_eq!(ask("b", "Count.").await, 429, "other instructions");
    assert_eq!(ask("a", "Sing.").await, 200, "another conversation");
}

/// Each call of the vendors' public descriptions passes, with a body that names no model. Those that
/// generate nothing cost one request.
#[tokio::test]
async fn each_call_of_a_vendor_passes() {
    let gemini = ANTHROPIC
        .replace("dialect = \"anthropic\"", "unmatched = \"refuse\"")
        .replace("unit =", "key = [\"model\"]\nunit =");
    for (vendor, limits) in [
        ("openai", preset("openai", 1000, 100_000).await),
        ("anthropic", preset("anthropic", 1000, 100_000).await),
        ("gemini", gemini),
    ] {
        let proxy = proxy(&limits, &model("application/json", "{}").await, "").await;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system/proxy/routes");
        let routes = std::fs::read_to_string(folder.join(format!("{vendor}.txt"))).unwrap();
        for route in routes.lines().filter(|line| !line.starts_with('#')) {
            let (method, path) = route.split_once(' ').unwrap();
            let call = http().request(method.parse().unwrap(), format!("{}{path}", proxy.url()));
            let call = if method == "GET" { call } else { call.body("{\"input\":\"some text\"}") };
            assert_eq!(call.send().await.unwrap().status(), 200, "{vendor}: {route}");
        }
    }
}
