//! The proxy holds what the upstream would reject, and passes everything else on as it is.

use crate::prelude::*;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::any;
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use rampmeter_listener::stated::UnitCost;
use rampmeter_protocol::amount::Amount;
use rampmeter_proxy::route::{Route, RouteLabel, Routes};
use rampmeter_proxy::settings::{Asking, Bounds, HeaderSettings, Times};
use rampmeter_proxy::tokens::TokenUnits;
use rampmeter_tests::api::http as http_client;
use rampmeter_tests::http_proxy::{raw, settings};
use rampmeter_tests::raw_upstream::answer;

/// Forty requests a second. The margin covers pauses of half a second on a busy machine.
const FEW: &str = "[[resource]]\nname = \"api\"\ndialect = \"sentinel-hub\"\nlearn_costs = []\n\
    [[resource.limit]]\nname = \"few\"\ncapacity = 40\nperiod = \"1s\"\nmargin = 20\n";
/// One request in an hour, after the first.
const ONE: &str = "[[resource]]\nname = \"api\"\nstart = \"full\"\n\
    [[resource.limit]]\nname = \"one\"\ncapacity = 1\nperiod = \"1h\"\nmargin = 0\n";

fn head(text: &str) -> &str {
    text.split_once("\r\n\r\n").map_or(text, |(head, _)| head)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_requests_than_the_upstream_takes_are_held_and_all_succeed() {
    let upstream = upstream(&["requests=40/1s"]).await;
    let proxy = HttpProxy::start(FEW, &upstream.url()).await;
    let http = http_client();
    let calls = (0..100).map(|_| async { http.get(proxy.url("/process")).send().await.unwrap().status().as_u16() });
    let statuses = within("all are answered", join_all(calls)).await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    let total = upstream.stats().total;
    assert_eq!((total.ok, total.rate_limited), (100, 0));
    let worker = Worker::connect(&proxy.nats, "api").await;
    until("every call is settled", async || (worker.status().await.counters.settled == 100).then_some(())).await;
}

#[tokio::test]
async fn an_answer_passes_as_it_comes() {
    let start =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n";
    let mut upstream = RawUpstream::start([Act::SayOn(start.to_vec())]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let mut response = http_client().get(proxy.url("/stream")).send().await.unwrap();
    assert_eq!(within("the first event", response.chunk()).await.unwrap().unwrap(), "first");
    // The second event is written only after the first was read.
    let more = upstream.more.take().unwrap();
    more.send(b"6\r\nsecond\r\n0\r\n\r\n".to_vec()).unwrap();
    assert_eq!(within("the second event", response.chunk()).await.unwrap().unwrap(), "second");
    drop(more);
    assert!(within("the end", response.chunk()).await.unwrap().is_none());
}

/// Echoes 32 MiB, more than the proxy may keep, in both directions at once.
#[tokio::test]
async fn a_body_passes_without_being_kept() {
    const PIECES: usize = 512;
    const PIECE: usize = 64 * 1024;
    let echo = Router::new().fallback(any(|request: Request| async { Body::new(request.into_body()) }));
    let url = serve(echo).await;
    let bounds = Bounds { replay_bytes: PIECE, replay_memory: 2 * PIECE, ..Bounds::default() };
    let proxy = HttpProxy::start_with(AMPLE, settings_with(&url, bounds)).await;
    let piece = |at: usize| Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![at as u8; PIECE])));
    let body = StreamBody::new(futures::stream::iter((0..PIECES).map(piece)));
    let request = http_client().post(proxy.url("/echo")).body(reqwest::Body::wrap(body));
    let mut echoed = request.send().await.unwrap();
    let mut length = 0;
    while let Some(piece) = within("the echo goes on", echoed.chunk()).await.unwrap() {
        for byte in piece {
            assert_eq!(byte, (length / PIECE) as u8);
            length += 1;
        }
    }
    assert_eq!(length, PIECES * PIECE);
}

fn settings_with(url: &str, bounds: Bounds) -> rampmeter_proxy::Settings {
    rampmeter_proxy::Settings { bounds, ..settings(url) }
}

#[tokio::test]
async fn a_429_is_repeated_with_the_same_body() {
    let throttled = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n".to_vec();
    let upstream = RawUpstream::start([Act::Say(throttled.clone()), Act::Say(throttled)]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let response = http_client().post(proxy.url("/a?b")).body("a body").send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.text().await.unwrap().as_str()), (200, "ok"));
    let requests = upstream.requests();
    assert_eq!(requests.len(), 3);
    for request in requests {
        assert!(request.starts_with("POST /a?b HTTP/1.1\r\n") && request.ends_with("\r\n\r\na body"), "{request}");
    }
    let worker = Worker::connect(&proxy.nats, "api").await;
    until("both are counted", async || (worker.status().await.counters.upstream_429 == 2).then_some(())).await;
}

#[tokio::test]
async fn a_429_that_cannot_be_repeated_passes() {
    let throttled = |more: &str| {
        format!("HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\n{more}content-length: 3\r\n\r\nwhy").into_bytes()
    };
    let upstream =
        RawUpstream::start([Act::Say(throttled("")), Act::Say(throttled("x-should-retry: false\r\n"))]).await;
    let bounds = Bounds { replay_bytes: 10, ..Bounds::default() };
    let proxy = HttpProxy::start_with(AMPLE, settings_with(&upstream.url(), bounds)).await;
    for (body, requests) in [("longer than is kept", 1), ("short", 2)] {
        let response = http_client().post(proxy.url("/")).body(body).send().await.unwrap();
        assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (429, "1"));
        assert_eq!(response.text().await.unwrap(), "why");
        assert_eq!(upstream.requests().len(), requests);
    }
}

#[tokio::test]
async fn a_client_that_is_gone_gives_back_what_it_waited_for() {
    let upstream = RawUpstream::start([]).await;
    let times = Times { max_wait: Span::from_secs(7200), ..Times::default() };
    let settings = rampmeter_proxy::Settings { times, ..settings(&upstream.url()) };
    let proxy = HttpProxy::start_with(ONE, settings).await;
    let worker = Worker::connect(&proxy.nats, "api").await;
    let http = http_client();
    let first = http.get(proxy.url("/")).send().await.unwrap();
    assert_eq!(first.text().await.unwrap(), "ok");
    for body in ["", "a body that nobody has read yet", &"a long one ".repeat(80_000)] {
        let waiting = tokio::spawn(http.post(proxy.url("/")).body(body.to_owned()).send());
        worker.until_queued(1).await;
        waiting.abort();
        worker.until_queued(0).await;
    }
    proxy.until_metric("rampmeter_proxy_given_back_total 3").await;
    proxy.until_metric("rampmeter_proxy_held 0").await;
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_proxy_that_stops_serves_what_it_holds() {
    let upstream = RawUpstream::start([]).await;
    let slow = ONE.replace("1h", "5s");
    let HttpProxy { nats, running: _running, proxy } = HttpProxy::start(&slow, &upstream.url()).await;
    let (http, url) = (http_client(), format!("http://{}/", proxy.address()));
    http.get(&url).send().await.unwrap();
    let worker = Worker::connect(&nats, "api").await;
    let held = tokio::spawn(http.get(&url).send());
    worker.until_queued(1).await;
    within("the proxy stops", proxy.stop()).await;
    assert_eq!(held.await.unwrap().unwrap().status(), 200);
    assert!(http.get(&url).send().await.unwrap_err().is_connect(), "nothing listens any more");
}

#[tokio::test]
async fn a_stop_refuses_held_requests_and_returns_their_permits() {
    let upstream = RawUpstream::start([]).await;
    let times = Times { max_wait: Span::from_secs(7200), drain: Span::from_millis(1), ..Times::default() };
    let settings = rampmeter_proxy::Settings { times, ..settings(&upstream.url()) };
    let HttpProxy { nats, running: _running, proxy } = HttpProxy::start_with(ONE, settings).await;
    let (http, url) = (http_client(), format!("http://{}/", proxy.address()));
    http.get(&url).send().await.unwrap();
    let worker = Worker::connect(&nats, "api").await;
    let held = tokio::spawn(http.get(&url).send());
    worker.until_queued(1).await;
    within("the proxy stops", proxy.stop()).await;
    let refused = held.await.unwrap().unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    worker.until_queued(0).await;
}

#[tokio::test]
async fn the_upstream_sees_the_request_and_that_a_proxy_passed_it_on() {
    let upstream = RawUpstream::start([]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let request = "GET /a//b/../c?d=%20 HTTP/1.1\r\nHost: me.example\r\nConnection: keep-alive, x-mine\r\nX-Mine: 1\r\n\
                   Keep-Alive: 5\r\nAuthorization: Bearer secret\r\nX-Forwarded-For: 6.6.6.6\r\nUpgrade: h2c\r\n\r\n";
    let answered = raw(proxy.address(), request.as_bytes(), |text| text.ends_with("ok")).await;
    assert!(answered.starts_with("HTTP/1.1 200 OK\r\n") && answered.contains("x-rampmeter-wait-ms: "), "{answered}");
    let seen = upstream.requests().remove(0);
    let mut lines: Vec<&str> = head(&seen).lines().collect();
    assert_eq!(lines.remove(0), "GET /a//b/../c?d=%20 HTTP/1.1");
    lines.retain(|line| !line.starts_with("via: 1.1 rampmeter-"));
    lines.sort_unstable();
    let host = format!("host: {}", upstream.address);
    let expected = [
        "authorization: Bearer secret",
        host.as_str(),
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-host: me.example",
        "x-forwarded-proto: http",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn the_upstream_may_see_the_hosts_of_clients_and_nothing_of_their_addresses() {
    let upstream = RawUpstream::start([]).await;
    let headers = HeaderSettings { keep_host: true, ..HeaderSettings::default() };
    let settings = rampmeter_proxy::Settings { headers, ..settings(&upstream.url()) };
    let proxy = HttpProxy::start_with(AMPLE, settings).await;
    let answered = raw(proxy.address(), b"GET / HTTP/1.1\r\nhost: me\r\n\r\n", |text| text.ends_with("ok")).await;
    assert!(!answered.contains("x-rampmeter-wait-ms"), "{answered}");
    let seen = upstream.requests().remove(0);
    assert!(seen.contains("\r\nhost: me\r\n") && !seen.contains("forwarded"), "{seen}");
}

#[tokio::test]
async fn routes_say_what_requests_ask_for() {
    let resources = "[[resource]]\nname = \"api\"\nclasses = [{ name = \"fast\" }, { name = \"slow\" }]\n\
        [[resource.limit]]\nname = \"all\"\ncapacity = 100\nperiod = \"1h\"\nmargin = 0\n\
        [[resource.limit]]\nname = \"per-guild\"\nunit = \"tokens\"\ncapacity = 5\nperiod = \"1h\"\nmargin = 0\nkey = [\"guild\"]\n";
    let upstream = RawUpstream::start([]).await;
    let route = Route {
        methods: vec!["PUT".parse().unwrap()],
        host: None,
        path: "/guilds/{guild}/*".parse().unwrap(),
        class: Some("slow".to_owned()),
        labels: vec![("kind".to_owned(), RouteLabel::Text("write".to_owned()))],
        cost: vec![("tokens".to_owned(), UnitCost::Fixed(Amount::whole(3)))],
    };
    let asking = Asking { routes: Routes::new(vec![route]), ..Asking::default() };
    let times = Times { max_wait: Span::from_secs(10), ..Times::default() };
    let settings = rampmeter_proxy::Settings { asking, times, ..settings(&upstream.url()) };
    let proxy =
        HttpProxy::start_with(&resources.replace("name = \"api\"", "name = \"api\"\nstart = \"full\""), settings).await;
    let http = http_client();
    let put = async |path: &str| http.put(proxy.url(path)).send().await.unwrap().status().as_u16();
    assert_eq!((put("/guilds/7/members").await, put("/guilds/7/roles").await), (200, 429));
    assert_eq!((put("/guilds/8/members").await, put("/other").await), (200, 200));
    proxy
        .until_metric(
            "rampmeter_proxy_requests_total{route=\"/guilds/{guild}/*\",class=\"slow\",end=\"not_in_time\"} 1",
        )
        .await;
}

/// Covers interim answers, trailers in both directions, and `expect: 100-continue`.
#[tokio::test]
async fn interim_answers_and_trailers_pass_or_are_answered() {
    let interim = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let trailers =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n2\r\nok\r\n0\r\nx-sum: 7\r\n\r\n";
    let upstream = RawUpstream::start([Act::Say([&interim[..], trailers].concat()), Act::Say(answer("ok"))]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let request =
        b"POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\ntrailer: x-mine\r\ntransfer-encoding: chunked\r\n\r\n\
                    1\r\na\r\n0\r\nx-mine: 1\r\n\r\n";
    let answered = raw(proxy.address(), request, |text| text.ends_with("x-sum: 7\r\n\r\n")).await;
    assert!(answered.contains("2\r\nok\r\n0\r\nx-sum: 7\r\n\r\n"), "{answered}");
    assert!(upstream.requests()[0].ends_with("1\r\na\r\n0\r\nx-mine: 1\r\n\r\n"), "{:?}", upstream.requests());
    let expecting = b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n";
    let continued = raw(proxy.address(), expecting, |text| text.ends_with("\r\n\r\n")).await;
    assert_eq!(continued, "HTTP/1.1 100 Continue\r\n\r\n");
}

#[tokio::test]
async fn http2_is_spoken_without_encryption_too() {
    let upstream = RawUpstream::start([]).await;
    let proxy = HttpProxy::start(AMPLE, &upstream.url()).await;
    let http = legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let calls = (0..20).map(|_| http.request(http::Request::post(proxy.url("/a")).body("b".to_owned()).unwrap()));
    for answered in within("all are answered", join_all(calls)).await {
        let answered = answered.unwrap();
        assert_eq!((answered.version(), answered.status().as_u16()), (http::Version::HTTP_2, 200));
    }
    assert_eq!(upstream.requests().len(), 20);
}

/// The estimate stays charged until the last event of the stream states the actual tokens.
#[tokio::test]
async fn tokens_are_estimated_from_the_request_and_settled_from_the_stream() {
    let resources = "[[resource]]\nname = \"api\"\nstart = \"full\"\nuncounted = \"allow\"\nunmatched = \"allow\"\n\
        [[resource.limit]]\nname = \"tokens\"\nunit = \"tokens\"\ncapacity = 1000\nperiod = \"24h\"\nmargin = 0\n";
    let events =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n6\r\ndata: \r\n";
    let mut upstream = RawUpstream::start([Act::SayOn(events.as_bytes().to_vec())]).await;
    let tokens = TokenUnits { total: "tokens".parse().ok(), settles: true, ..TokenUnits::default() };
    let asking = Asking { tokens: Some(tokens), ..Asking::default() };
    let settings = rampmeter_proxy::Settings { asking, ..settings(&upstream.url()) };
    let proxy = HttpProxy::start_with(resources, settings).await;
    let worker = Worker::connect(&proxy.nats, "api").await;
    let request =
        http_client().post(proxy.url("/v1/chat/completions")).body(r#"{"prompt":"four and four to","max_tokens":896}"#);
    let answered = request.header("accept-encoding", "gzip").send().await.unwrap();
    let level = async || worker.limit("tokens").await.level.round();
    assert_eq!(level().await, 100.0, "four bytes of text are a token, and the answer may have 896");
    let more = upstream.more.take().unwrap();
    let usage = "{\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":30}}\n\n";
    more.send(format!("{:x}\r\n{usage}\r\n0\r\n\r\n", usage.len()).into_bytes()).unwrap();
    assert!(within("the end", answered.text()).await.unwrap().contains("usage"));
    until("the call is settled with what it took", async || (level().await == 950.0).then_some(())).await;
    assert!(upstream.requests()[0].contains("accept-encoding: identity\r\n"));
}
