//! The middleware for reqwest.

use super::HUB;
use crate::prelude::*;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use http_body_util::{BodyExt, Full};
use rampmeter_worker_sdk::middleware::reqwest::Permits;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error};

async fn connect(nats: &Server) -> Client {
    Client::connect(nats.url()).await.unwrap()
}

fn permits(client: &Client) -> Permits {
    Permits::new(client.resource("hub").unwrap())
}

fn with(permits: Permits) -> ClientWithMiddleware {
    ClientBuilder::new(http()).with(permits).build()
}

/// The status of one call.
async fn call(http: &ClientWithMiddleware, upstream: &Upstream) -> u16 {
    let response = http.get(format!("{}/process", upstream.url())).send().await.unwrap();
    let status = response.status().as_u16();
    // A connection is used again only if its answer was read to the end.
    response.bytes().await.unwrap();
    status
}

/// A stranger without a permit has taken all tokens.
#[tokio::test]
async fn a_call_that_is_answered_429_is_made_anew() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let upstream = upstream(&["requests=2/2s"]).await;
    let (stranger, client) = (ClientBuilder::new(http()).build(), connect(&nats).await);
    assert_eq!(join_all((0..2).map(|_| call(&stranger, &upstream))).await, [200, 200]);

    let status = within("an answer", call(&with(permits(&client)), &upstream)).await;
    let total = upstream.stats().total;
    assert_eq!((status, total.ok), (200, 3));
    assert!(total.rate_limited > 0, "the stranger was to take everything");
    assert_eq!(client.stats().throttled, total.rate_limited);
    let worker = Worker::connect(&nats, "hub").await;
    until("every 429 is counted", async || {
        (worker.status().await.counters.upstream_429 == total.rate_limited).then_some(())
    })
    .await;
}

/// An API that answers every call with 429 and a pause of 10 ms. Returns its URL and the number of
/// calls.
async fn that_says_429() -> (String, Arc<AtomicU64>) {
    let called = Arc::<AtomicU64>::default();
    let counter = called.clone();
    let answer = post(async move |_body: String| {
        counter.fetch_add(1, Ordering::Relaxed);
        (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "10")])
    });
    (serve(Router::new().route("/", answer)).await, called)
}

#[tokio::test]
async fn repeats_have_a_bound_and_need_a_body_that_can_be_sent_again() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let client = connect(&nats).await;
    let stream = || reqwest::Body::wrap(Full::new(bytes::Bytes::from_static(b"tile")).boxed());
    let text = || reqwest::Body::from("tile");
    #[rustfmt::skip]
    let table = [
        (permits(&client).repeats(2), text(),   3),
        (permits(&client).repeats(0), text(),   1),
        (permits(&client),            text(),   4),
        (permits(&client),            stream(), 1),
    ];
    for (permits, body, calls) in table {
        let (url, called) = that_says_429().await;
        let response = within("an answer", with(permits).post(url).body(body).send()).await.unwrap();
        assert_eq!((response.status().as_u16(), called.load(Ordering::Relaxed)), (429, calls));
    }
}

#[tokio::test]
async fn without_a_permit_nothing_is_called() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let upstream = upstream(&["requests=100/1s"]).await;
    let permits = permits(&connect(&nats).await).asking(|acquire, request| {
        let cost = if request.method() == reqwest::Method::GET { 101 } else { 1 };
        acquire.cost(cost).deadline(Duration::from_secs(20))
    });
    let error = with(permits).get(format!("{}/process", upstream.url())).send().await.unwrap_err();
    let Error::Middleware(error) = error else { panic!("{error}") };
    let kind = error.downcast_ref::<rampmeter_worker_sdk::Error>().map(rampmeter_worker_sdk::Error::kind);
    assert_eq!(kind, Some(ErrorKind::Refused(Code::NeverFits)));
    assert_eq!(upstream.stats().total.ok, 0);
}

/// An API without an account has no money either: nothing but the caller can end it.
#[tokio::test]
async fn a_run_ends_with_the_429_that_it_was_told() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let hub = connect(&nats).await.resource("hub").unwrap();
    let throttled = || Outcome::status(429).header("retry-after", "10");
    #[rustfmt::skip]
    let table = [
        (hub.acquire(1),            throttled(),                            4),
        (hub.acquire(1).repeats(1), throttled(),                            2),
        (hub.acquire(1),            throttled().code("insufficient_quota"), 1),
    ];
    for (acquire, answer, expected) in table {
        let mut calls = 0;
        let call = || {
            calls += 1;
            std::future::ready(Ok::<_, std::convert::Infallible>(answer.clone()))
        };
        let told = within("an answer", acquire.run(call)).await.unwrap();
        assert_eq!((told, calls), (answer, expected));
    }
}

#[tokio::test]
async fn a_call_without_a_connection_is_given_back() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let client = connect(&nats).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    for _ in 0..3 {
        let error = within("an answer", with(permits(&client)).get(&url).send()).await.unwrap_err();
        assert!(matches!(&error, Error::Reqwest(error) if error.is_connect()), "{error}");
    }
    assert_eq!((client.stats().granted, client.stats().returned), (3, 3));
}

/// Two calls in flight at once.
const PLACES: &str = r#"
[[resource]]
name = "hub"
limit = [{ name = "places", algorithm = "concurrency", capacity = 2, time_to_live = "5s" }]
"#;

/// An API whose bodies take 200 ms, and the most of them that were under way at once.
async fn that_is_slow() -> (String, Arc<AtomicU64>) {
    let (now, most) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let seen = most.clone();
    let answer = axum::routing::get(async move || {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let now = now.clone();
        axum::body::Body::from_stream(futures::stream::once(async move {
            let_pass(Duration::from_millis(200), "the body takes its time").await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, std::convert::Infallible>("tile")
        }))
    });
    (serve(Router::new().route("/", answer)).await, seen)
}

#[tokio::test]
async fn a_call_lasts_as_long_as_its_body_where_places_are_counted() {
    let (nats, _running) = scheduler::alone(PLACES).await;
    let client = connect(&nats).await;
    let ((url, most), http) = (that_is_slow().await, with(permits(&client)));
    let read = async || {
        let response = http.get(&url).send().await.unwrap();
        assert_eq!(response.url().as_str(), format!("{url}/"));
        response.text().await.unwrap()
    };
    let bodies = within("all bodies", join_all((0..8).map(|_| read()))).await;
    assert_eq!((bodies, most.load(Ordering::SeqCst)), (vec!["tile".to_owned(); 8], 2));
    for _ in 0..3 {
        drop(within("an answer", http.get(&url).send()).await.unwrap());
    }
    let worker = Worker::connect(&nats, "hub").await;
    until("all are settled", async || (worker.status().await.counters.settled == 11).then_some(())).await;
}
