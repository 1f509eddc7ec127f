//! The service over real connections.

use rampmeter_upstream::{Config, Preset, ResponseTime, Rule, Upstream};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::SocketAddr,
    num::NonZeroUsize,
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};

/// Longer than any step here takes; it turns a hang into a failure.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// A response time longer than any test. A caller that got an answer did not wait for it.
const FOR_EVER: Duration = Duration::from_secs(100_000);

/// Name and value.
type Header = (&'static str, &'static str);

fn preset(policies: &[&str]) -> Preset {
    Preset::new(policies.iter().map(|text| Rule::new(text.parse().unwrap())).collect())
}

fn config(policies: &[&str]) -> Config {
    Config::of(preset(policies))
}

async fn start(config: Config) -> Upstream {
    Upstream::start(config).await.unwrap()
}

fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

fn call(upstream: &Upstream, query: &str) -> RequestBuilder {
    client().get(format!("{}/process{query}", upstream.url()))
}

async fn answer(request: RequestBuilder) -> Response {
    timeout(STEP_TIMEOUT, request.send()).await.expect("an answer in time").unwrap()
}

async fn body(response: Response) -> Value {
    response.json().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

/// Waits for `condition` without sleeping: the other task only needs its turn.
async fn until(condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    timeout(STEP_TIMEOUT, polling).await.expect("the condition in time");
}

#[tokio::test]
async fn a_cost_is_read_from_query_or_header() {
    #[rustfmt::skip]
    let table: [(&str, &[Header], u16, &str); 17] = [
        // query,                                  headers,                             status,
        // spent or message
        ("",                                       &[],                                    200, "0"),
        ("?processing-units=2.5",                  &[],                                    200, "2.5"),
        ("?processing-units=0.0000001",            &[],                                    200, "0.000001"),
        ("?requests=0&processing-units=1",         &[],                                    200, "1"),
        ("?width=512&processing%2Dunits=1",        &[],                                    200, "1"),
        ("",                                       &[("x-cost-processing-units", "7")],    200, "7"),
        ("",                                       &[("X-Cost-Processing-Units", "7")],    200, "7"),
        ("?tokens=5",                              &[("x-cost-processing-units", "7")],    200, "7"),
        ("?processing-units=",                     &[],                                    400, "processing-units: not a decimal number such as 2 or 2.5"),
        ("?processing-units",                      &[],                                    400, "processing-units: not a decimal number such as 2 or 2.5"),
        ("?processing-units=-1",                   &[],                                    400, "processing-units: not a decimal number such as 2 or 2.5"),
        ("?requests=one",                          &[],                                    400, "requests: not a decimal number such as 2 or 2.5"),
        ("?tokens=1e3",                            &[],                                    400, "tokens: not a decimal number such as 2 or 2.5"),
        ("?tokens=99999999999999",                 &[],                                    400, "tokens: too large"),
        ("?tokens=1&tokens=1",                     &[],                                    400, "tokens: the cost is stated twice"),
        ("?tokens=1",                              &[("x-cost-tokens", "1")],              400, "tokens: the cost is stated twice"),
        ("",                                       &[("x-cost-requests", "é")],            400, "x-cost-requests: not a decimal number such as 2 or 2.5"),
    ];
    let upstream = start(config(&["requests=100/PT0S", "tokens=100/PT0S"])).await;
    for (query, headers, status, expected) in table {
        let request =
            headers.iter().fold(call(&upstream, query), |request, (name, value)| request.header(*name, *value));
        let response = answer(request).await;
        assert_eq!(response.status(), status, "{query} {headers:?}");
        let spent = header(&response, "x-processingunits-spent").map(str::to_owned);
        let message = body(response).await["error"]["message"].as_str().map(str::to_owned);
        assert_eq!(spent.or(message).as_deref(), Some(expected), "{query} {headers:?}");
    }
    upstream.stop().await;
}

#[tokio::test]
async fn a_call_beyond_the_limit_is_answered_as_sentinel_hub_does() {
    let upstream = start(config(&["requests=2/PT1H"])).await;
    for _ in 0..2 {
        assert_eq!(answer(call(&upstream, "")).await.status(), 200);
    }
    let response = answer(call(&upstream, "")).await;
    assert_eq!(response.status(), 429);
    let retry_after_ms: u64 = header(&response, "retry-after").unwrap().parse().unwrap();
    let elapsed_ms = u64::try_from(upstream.stats().uptime.as_millis()).unwrap() + 1;
    assert!((1_800_000 - elapsed_ms..=1_800_000).contains(&retry_after_ms), "{retry_after_ms} ms");
    let expected = json!({"error": {
        "status": 429,
        "reason": "Too Many Requests",
        "message": "You have exceeded your rate limit",
        "code": "RATE_LIMIT_EXCEEDED",
    }});
    assert_eq!(body(response).await, expected);
    upstream.stop().await;
}

#[tokio::test]
async fn a_call_whose_caller_has_gone_is_no_longer_in_flight() {
    let mut preset = preset(&[]);
    preset.concurrency = Some(NonZeroUsize::MIN);
    let upstream = start(Config { response_time: ResponseTime::fixed(FOR_EVER), ..Config::of(preset) }).await;
    let first = tokio::spawn(call(&upstream, "").send());
    until(|| upstream.stats().total.ok == 1).await;
    let response = answer(call(&upstream, "")).await;
    assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, None));
    first.abort();
    // The first of these to be admitted gets no answer.
    let calls = async {
        loop {
            assert_eq!(answer(call(&upstream, "")).await.status(), 429);
        }
    };
    tokio::select! {
        () = calls => {}
        () = until(|| upstream.stats().total.ok == 2) => {}
    }
}

/// Reaches `service::MAX_BODY_BYTES`.
#[tokio::test]
async fn a_larger_body_costs_the_connection() {
    const LARGEST: usize = 1 << 20;
    for (bytes, expected) in [(LARGEST, 2), (3 * LARGEST, 1)] {
        let upstream = start(config(&["requests=9/PT0S"])).await;
        let addr = upstream.addr();
        let answers = tokio::task::spawn_blocking(move || post_twice(addr, &vec![b'x'; bytes]));
        timeout(STEP_TIMEOUT, answers).await.expect("an end in time").unwrap();
        assert_eq!(upstream.stats().total.ok, expected, "{bytes}");
        upstream.stop().await;
    }
}

/// Two calls on one connection, which the second one closes. The upstream may close it before.
fn post_twice(addr: SocketAddr, body: &[u8]) -> String {
    let mut connection = std::net::TcpStream::connect(addr).unwrap();
    for persistence in ["keep-alive", "close"] {
        let head = format!(
            "POST /process HTTP/1.1\r\nhost: upstream\r\nconnection: {persistence}\r\ncontent-length: {}\r\n\r\n",
            body.len(),
        );
        connection.write_all(&[head.as_bytes(), body].concat()).ok();
    }
    let mut answers = Vec::new();
    connection.read_to_end(&mut answers).ok();
    String::from_utf8_lossy(&answers).into_owned()
}

#[tokio::test]
async fn only_admitted_calls_take_their_response_time() {
    let response_time = ResponseTime::fixed(Duration::from_millis(50));
    let upstream = start(Config { response_time, ..config(&["requests=1/PT0S"]) }).await;
    let before = upstream.stats().uptime;
    assert_eq!(answer(call(&upstream, "")).await.status(), 200);
    let elapsed = upstream.stats().uptime - before;
    assert!(elapsed >= response_time.longest(), "{elapsed:?}");
    upstream.stop().await;

    let upstream = start(Config { response_time: ResponseTime::fixed(FOR_EVER), ..config(&["requests=1/PT0S"]) }).await;
    for (query, status) in [("?requests=2", 429), ("?requests=x", 400)] {
        assert_eq!(answer(call(&upstream, query)).await.status(), status, "{query}");
    }
}

#[tokio::test]
async fn statistics_tell_counts_and_levels() {
    let upstream = start(config(&["requests=3/PT0S", "processing-units=4.5/PT0S"])).await;
    for query in ["?processing-units=2.5", "?processing-units=2.5", "?processing-units=x", "", "", ""] {
        answer(call(&upstream, query)).await;
    }
    let response = answer(client().get(format!("{}/stats", upstream.url()))).await;
    let mut stats = body(response).await;
    assert!(stats["uptime_ms"].is_u64());
    stats["uptime_ms"].take();
    let expected = json!({
        "uptime_ms": null, "sent": 6, "ok": 3, "rate_limited": 2, "bad": 1,
        "policies": [
            {"unit": "requests", "capacity": 3.0, "period_ms": 0, "spent": 3.0, "level": 0.0},
            {"unit": "processing-units", "capacity": 4.5, "period_ms": 0, "spent": 2.5, "level": 2.0},
        ],
    });
    assert_eq!(stats, expected);
    upstream.stop().await;
}

#[tokio::test]
async fn a_stop_answers_calls_under_way_and_refuses_new_ones() {
    let slow = ResponseTime::fixed(Duration::from_millis(100));
    let upstream = start(Config { response_time: slow, ..config(&["requests=9/PT0S"]) }).await;
    let addr = upstream.addr();
    let idle = TcpStream::connect(addr).await.unwrap();
    let under_way = tokio::spawn(call(&upstream, "").send());
    until(|| upstream.stats().total.ok == 1).await;
    timeout(STEP_TIMEOUT, upstream.stop()).await.unwrap();
    assert_eq!(under_way.await.unwrap().unwrap().status(), 200);
    assert!(TcpStream::connect(addr).await.is_err());
    drop(idle);
}
