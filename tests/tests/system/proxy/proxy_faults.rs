//! The upstream dies, hangs and breaks off; clients are slow, gone or too many. Each failure has an
//! answer with a type, and nothing is charged that was not sent.

use crate::prelude::*;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rampmeter_proxy::Settings;
use rampmeter_proxy::settings::{Asking, Bounds, Times};
use rampmeter_tests::http_proxy::{another, raw, settings};
use rampmeter_tests::raw_upstream::answer;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::Barrier;

/// One request, and the next one in a time that no test waits for.
const ONE: &str = "[[resource]]\nname = \"api\"\nstart = \"full\"\n\
    [[resource.limit]]\nname = \"one\"\ncapacity = 1\nperiod = \"1h\"\nmargin = 0\n";

async fn get(proxy: &HttpProxy) -> Response {
    Response::read(within("an answer", http().get(proxy.url("/")).send()).await.unwrap()).await
}

/// The status, the code and the type of RFC 9209 of an answer of the proxy's own.
fn fields(response: &Response) -> (u16, &str, &str) {
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    assert_eq!(response.body["status"], response.status);
    (response.status, response.body["code"].as_str().unwrap(), response.header("proxy-status").unwrap())
}

#[tokio::test]
async fn a_call_without_a_connection_is_charged_nothing() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let proxy = HttpProxy::start(ONE, &format!("http://{gone}")).await;
    for _ in 0..3 {
        let expected = (502, "no_connection", "rampmeter; error=connection_refused");
        assert_eq!(fields(&get(&proxy).await), expected);
    }
    let worker = Worker::connect(&proxy.nats, "api").await;
    until("all are given back", async || (worker.status().await.counters.returned == 3).then_some(())).await;
}

#[tokio::test]
async fn an_upstream_that_resets_or_hangs_has_an_answer_of_its_own() {
    let upstream = RawUpstream::start([Act::Reset, Act::SayAndEnd(b"HTT".to_vec()), Act::Silence]).await;
    let times = Times { first_byte: Span::from_millis(200), ..settings(&upstream.url()).times };
    let proxy = HttpProxy::start_with(AMPLE, Settings { times, ..settings(&upstream.url()) }).await;
    for _ in 0..2 {
        assert_eq!(fields(&get(&proxy).await), (502, "no_answer", "rampmeter; error=connection_terminated"));
    }
    assert_eq!(fields(&get(&proxy).await), (504, "late_answer", "rampmeter; error=http_response_timeout"));
    assert_eq!(get(&proxy).await.status, 200);
    let worker = Worker::connect(&proxy.nats, "api").await;
    until("what was sent counts", async || (worker.status().await.counters.settled == 4).then_some(())).await;
}

#[tokio::test]
async fn half_a_body_ends_the_clients_connection() {
    let lengths = ["content-length: 10\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"];
    for headers in lengths {
        let half = format!("HTTP/1.1 200 OK\r\n{headers}").into_bytes();
        let upstream = RawUpstream::start([Act::SayAndEnd(half)]).await;
        let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
        let response = http().get(proxy.url("/")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        within("the end", response.bytes()).await.unwrap_err();
    }
}

#[tokio::test]
async fn an_answer_that_stops_in_its_middle_ends_after_a_while() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec();
    let upstream = RawUpstream::start([Act::SayOn(half)]).await;
    let times = Times { next_byte: Span::from_millis(200), ..settings(&upstream.url()).times };
    let proxy = HttpProxy::start_with(AMPLE, Settings { times, ..settings(&upstream.url()) }).await;
    let response = http().get(proxy.url("/")).send().await.unwrap();
    within("the end", response.bytes()).await.unwrap_err();
    let worker = Worker::connect(&proxy.nats, "api").await;
    until("the call has ended", async || (worker.status().await.counters.settled == 1).then_some(())).await;
}

/// An upstream that closes an idle connection has not begun the request that was just sent on it.
#[tokio::test]
async fn a_request_that_meets_the_end_of_a_kept_connection_is_sent_again_if_it_may_be() {
    let table = [
        ("GET", "", Act::SayAndEnd(Vec::new()), 200),
        ("PUT", "", Act::Reset, 200),
        ("POST", "idempotency-key", Act::SayAndEnd(Vec::new()), 200),
        ("POST", "x-other", Act::SayAndEnd(Vec::new()), 502),
        ("GET", "", Act::SayAndEnd(b"HTT".to_vec()), 502),
    ];
    for (method, header, end, expected) in table {
        let upstream = RawUpstream::start([Act::Say(answer("ok")), end]).await;
        let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
        assert_eq!(get(&proxy).await.status, 200);
        let request = http().request(method.parse().unwrap(), proxy.url("/again")).body("a body");
        let request = if header.is_empty() { request } else { request.header(header, "7") };
        let answered = within("an answer", request.send()).await.unwrap();
        assert_eq!(answered.status(), expected, "{method} {header}");
        assert_eq!(upstream.requests().len(), if expected == 200 { 3 } else { 2 }, "{method} {header}");
        assert_eq!(upstream.requests()[1], upstream.requests()[upstream.requests().len() - 1]);
        let worker = Worker::connect(&proxy.nats, "api").await;
        until("each is charged once", async || (worker.status().await.counters.settled == 2).then_some(())).await;
        assert_eq!(worker.status().await.counters.granted, 2);
    }
}

#[tokio::test]
async fn a_request_that_cannot_start_in_time_is_told_when_to_return() {
    let upstream = RawUpstream::start([]).await;
    let times = Times { max_wait: Span::from_millis(500), ..Times::default() };
    let proxy = HttpProxy::start_with(ONE, Settings { times, ..settings(&upstream.url()) }).await;
    assert_eq!(get(&proxy).await.status, 200);
    let refused = get(&proxy).await;
    assert_eq!(fields(&refused), (429, "not_in_time", "rampmeter; error=http_request_denied"));
    assert_eq!(refused.body["limited_by"], "one");
    let seconds: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&seconds), "{seconds}");
    assert_eq!(refused.header("ratelimit").unwrap(), format!("\"one\";r=0;t={seconds}"));
}

#[tokio::test]
async fn without_a_scheduler_requests_wait_no_longer_than_they_may() {
    let (nats, upstream) = (nats::start().await, RawUpstream::start([]).await);
    let times = Times { max_wait: Span::from_millis(300), ..Times::default() };
    let proxy = another(&nats, Settings { times, ..settings(&upstream.url()) }).await;
    let asked = http().get(format!("http://{}/", proxy.address())).send().await.unwrap();
    let refused = Response::read(asked).await;
    assert_eq!(fields(&refused), (429, "not_in_time", "rampmeter; error=http_request_denied"));
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_request_that_can_never_succeed_is_refused_at_once() {
    let upstream = RawUpstream::start([]).await;
    let asking = Asking { class_header: Some("x-class".parse().unwrap()), ..Asking::default() };
    let proxy = HttpProxy::start_with(AMPLE, Settings { asking, ..settings(&upstream.url()) }).await;
    let classed = async |class: &str| {
        let asked = http().get(proxy.url("/")).header("x-class", class).send().await.unwrap();
        Response::read(asked).await
    };
    assert_eq!(fields(&classed("nosuch").await).1, "unknown_class");
    assert_eq!(fields(&classed("no such").await), (400, "invalid_request", "rampmeter; error=http_request_denied"));
    assert_eq!(classed("default").await.status, 200);
    let looped = http().get(proxy.url("/")).header("via", "1.1 other").send().await.unwrap();
    assert_eq!(looped.status(), 200);
}

#[tokio::test]
async fn a_client_beyond_the_bound_waits_for_a_place() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let upstream = RawUpstream::start([]).await;
    let bounds = Bounds { clients: 1, ..Bounds::default() };
    let proxy = HttpProxy::start_with(AMPLE, Settings { bounds, ..settings(&upstream.url()) }).await;
    let mut first = TcpStream::connect(proxy.address()).await.unwrap();
    first.write_all(REQUEST).await.unwrap();
    within("an answer", first.read_exact(&mut [0])).await.unwrap();
    let mut second = TcpStream::connect(proxy.address()).await.unwrap();
    second.write_all(REQUEST).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(300), second.read(&mut [0])).await;
    assert!(waits.is_err(), "the second has a place beyond the bound");
    drop(first);
    assert_eq!(within("an answer", second.read(&mut [0])).await.unwrap(), 1);
}

/// Programs that only know `HTTPS_PROXY` ask for tunnels. A request behind such a one is not read.
#[tokio::test]
async fn there_are_no_tunnels() {
    let upstream = RawUpstream::start([]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let behind = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";
    for body in ["\r\n", "content-length: 1\r\n\r\na", "transfer-encoding: chunked\r\n\r\n0\r\n\r\n"] {
        let request = format!("CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n{body}{behind}");
        let refused = within("a refusal", raw(proxy.address(), request.as_bytes(), |_| false)).await;
        assert!(refused.starts_with("HTTP/1.1 405 ") && refused.contains("connection: close\r\n"), "{refused}");
        assert!(refused.contains("\"code\":\"tunnel\"") && refused.contains("set it as the base URL"), "{refused}");
        assert_eq!(refused.matches("HTTP/1.1").count(), 1, "{refused}");
    }
    assert_eq!(upstream.requests(), [""; 0]);
}

/// Programs that only know `HTTP_PROXY` send whole URLs.
#[tokio::test]
async fn a_whole_url_is_answered_by_the_upstream_whichever_host_it_names() {
    let upstream = RawUpstream::start([]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let request = b"GET http://api.example.com/a?b=c HTTP/1.1\r\nhost: api.example.com\r\nconnection: close\r\n\r\n";
    let answered = within("an answer", raw(proxy.address(), request, |_| false)).await;
    assert!(answered.starts_with("HTTP/1.1 200 "), "{answered}");
    assert!(upstream.requests()[0].starts_with("GET /a?b=c HTTP/1.1\r\n"), "{:?}", upstream.requests());
}

#[tokio::test]
async fn a_proxy_in_front_of_itself_finds_the_loop() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (nats, _running) = scheduler::alone(AMPLE).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let _proxy = rampmeter_proxy::Proxy::start(listener, client.resource("api").unwrap(), settings(&url)).unwrap();
    let looped = Response::read(http().get(&url).send().await.unwrap()).await;
    assert_eq!(fields(&looped), (508, "loop", "rampmeter; error=proxy_loop_detected"));
}

/// Reaches `listener::MAX_HEADERS`.
#[tokio::test]
async fn the_headers_of_a_request_are_bounded() {
    let upstream = RawUpstream::start([]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let many = "a: b\r\n".repeat(100_000);
    let long = format!("a: {}\r\n", "b".repeat(200_000));
    for headers in [many, long] {
        let request = format!("GET / HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
        let answered = raw(proxy.address(), request.as_bytes(), |text| text.contains("\r\n\r\n")).await;
        // The connection may be reset before its answer is read.
        assert!(answered.is_empty() || answered.starts_with("HTTP/1.1 431 "), "{answered}");
    }
    let few_too_many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "a: b\r\n".repeat(128));
    let answered = raw(proxy.address(), few_too_many.as_bytes(), |text| text.contains("\r\n\r\n")).await;
    assert!(answered.starts_with("HTTP/1.1 431 "), "{answered}");
    assert!(upstream.requests().is_empty());
    assert_eq!(get(&proxy).await.status, 200);
}

#[tokio::test]
async fn more_requests_than_are_held_are_sent_away() {
    let upstream = RawUpstream::start([]).await;
    let bounds = Bounds { held: 1, ..Bounds::default() };
    let times = Times { max_wait: Span::from_secs(7200), ..Times::default() };
    let proxy = HttpProxy::start_with(ONE, Settings { bounds, times, ..settings(&upstream.url()) }).await;
    assert_eq!(get(&proxy).await.status, 200);
    let held = tokio::spawn(http().get(proxy.url("/")).send());
    proxy.until_metric("rampmeter_proxy_held 1").await;
    let refused = get(&proxy).await;
    assert_eq!(fields(&refused), (503, "too_many_held", "rampmeter; error=connection_limit_reached"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    held.abort();
    proxy.until_metric("rampmeter_proxy_held 0").await;
}

#[tokio::test]
async fn more_calls_than_may_be_in_flight_wait_for_a_place() {
    let mut upstream = RawUpstream::start([Act::SayOn(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n".to_vec())]).await;
    let bounds = Bounds { in_flight: 1, ..Bounds::default() };
    let proxy = HttpProxy::start_with(AMPLE, Settings { bounds, ..settings(&upstream.url()) }).await;
    let first = http().get(proxy.url("/")).send().await.unwrap();
    let second = tokio::spawn(http().get(proxy.url("/")).send());
    proxy.until_metric("rampmeter_proxy_held 1").await;
    assert_eq!(upstream.requests().len(), 1);
    upstream.more.take().unwrap().send(b"ok".to_vec()).unwrap();
    assert_eq!(within("the first", first.text()).await.unwrap(), "ok");
    assert_eq!(within("the second", second).await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn a_client_that_does_not_send_its_body_holds_no_place_for_ever() {
    let upstream = RawUpstream::start([]).await;
    let times = Times { first_byte: Span::from_millis(200), ..settings(&upstream.url()).times };
    let proxy = HttpProxy::start_with(AMPLE, Settings { times, ..settings(&upstream.url()) }).await;
    let request = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf";
    let answered = raw(proxy.address(), request, |_| false).await;
    assert!(answered.starts_with("HTTP/1.1 408 ") && answered.contains("\"code\":\"slow_client\""), "{answered}");
}

#[tokio::test]
async fn a_client_that_is_gone_cuts_the_answer() {
    let start = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n".to_vec();
    let mut upstream = RawUpstream::start([Act::SayOn(start)]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    within("a part", client.read(&mut [0; 1024])).await.unwrap();
    drop(client);
    let more = upstream.more.take().unwrap();
    let worker = Worker::connect(&proxy.nats, "api").await;
    until("the call has ended", async || {
        more.send(b"4\r\nmore\r\n".to_vec()).ok();
        (worker.status().await.counters.settled == 1).then_some(())
    })
    .await;
}

/// Reaches `exchange::MAX_SENDINGS`.
#[tokio::test]
async fn a_request_that_is_always_answered_429_is_not_sent_for_ever() {
    let throttled = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n".to_vec();
    let upstream = RawUpstream::start(vec![Act::Say(throttled); 100]).await;
    // This dialect counts the pause in milliseconds.
    let resource = AMPLE.replace("\"api\"\n", "\"api\"\ndialect = \"sentinel-hub\"\n");
    let proxy = HttpProxy::start(&resource, &upstream.url()).await;
    let answered = within("an answer", http().get(proxy.url("/")).send()).await.unwrap();
    assert_eq!((answered.status().as_u16(), upstream.requests().len()), (429, 16));
}

/// Clients that have one connection of HTTP/2 each.
fn http2() -> legacy::Client<HttpConnector, Empty<Bytes>> {
    legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http()
}

/// Reaches `listener::MAX_STREAMS`.
#[tokio::test]
async fn a_connection_has_a_bounded_number_of_requests() {
    let upstream = RawUpstream::start([]).await;
    let times = Times { max_wait: Span::from_secs(7200), ..Times::default() };
    let proxy = HttpProxy::start_with(ONE, Settings { times, ..settings(&upstream.url()) }).await;
    assert_eq!(get(&proxy).await.status, 200);
    let (client, mut calls) = (http2(), JoinSet::new());
    (0..400).for_each(|_| drop(calls.spawn(client.get(proxy.url("/").parse().unwrap()))));
    proxy.until_metric("rampmeter_proxy_held 250").await;
    // This request waits behind the 250 that the first connection may have open.
    calls.spawn(http2().get(proxy.url("/").parse().unwrap()));
    proxy.until_metric("rampmeter_proxy_held 251").await;
}

/// Reaches `pool::MAX_IDLE`.
#[tokio::test]
async fn a_burst_leaves_a_bounded_number_of_connections() {
    const BURST: usize = 300;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (open, all_are_here) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(BURST)));
    let counted = open.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (open, all_are_here) = (counted.clone(), all_are_here.clone());
            tokio::spawn(async move {
                open.fetch_add(1, Relaxed);
                assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
                all_are_here.wait().await;
                stream.write_all(&answer("ok")).await.unwrap();
                while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {}
                open.fetch_sub(1, Relaxed);
            });
        }
    });
    let bounds = Bounds { in_flight: BURST, ..Bounds::default() };
    let proxy = HttpProxy::start_with(AMPLE, Settings { bounds, ..settings(&url) }).await;
    let (clients, mut calls) = ([http2(), http2()], JoinSet::new());
    for number in 0..BURST {
        calls.spawn(clients[number % 2].get(proxy.url("/").parse().unwrap()));
    }
    while let Some(answered) = within("all answers", calls.join_next()).await {
        let body = answered.unwrap().unwrap().into_body();
        within("a body", body.collect()).await.unwrap();
    }
    until("the others are closed", async || (open.load(Relaxed) == 256).then_some(())).await;
}
