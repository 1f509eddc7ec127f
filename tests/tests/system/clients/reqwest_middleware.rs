//! The middleware for reqwest.

use crate::prelude::*;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use http_body_util::{BodyExt, Full};
use rampmeter_worker_sdk::middleware::reqwest::Permits;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error};

/// A hundred requests a second. The margin covers pauses of half a second on a busy machine.
const HUB: &str = r#"
[[resource]]
name = "hub"
dialect = "sentinel-hub"
limit = [{ name = "per-second", capacity = 100, period = "1s", margin = 50 }]
"#;

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
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, Router::new().route("/", answer)).await.unwrap() });
    (url, called)
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
