//! The layer for servers, in front of axum services on the loopback.

#![allow(clippy::print_stdout, reason = "a failure, or --nocapture, shows what was measured")]

use crate::prelude::*;
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use rampmeter_worker_sdk::middleware::tower::{Policy, ServerLayer};
use rampmeter_worker_sdk::policy::{Patience, Unreachable};

/// `capacity` requests, and as many more in each `period`.
fn api(capacity: u64, period: &str) -> String {
    format!(
        r#"
[[resource]]
name = "api"
[[resource.limit]]
name = "few"
capacity = {capacity}
period = "{period}"
margin = 0
"#
    )
}

async fn resource(nats: &Server) -> Resource {
    Client::connect(nats.url()).await.unwrap().resource("api").unwrap()
}

/// Services behind clones of one layer, until it is dropped.
struct Services {
    urls: Vec<String>,
    /// Requests that have reached the service inside.
    received: Arc<AtomicU64>,
    _serving: JoinSet<()>,
}

impl Services {
    async fn start(clones: usize, layer: &ServerLayer) -> Self {
        let (received, mut serving, mut urls) = (Arc::<AtomicU64>::default(), JoinSet::new(), Vec::new());
        for _ in 0..clones {
            let received = received.clone();
            let inside = get(async move |uri: Uri| {
                received.fetch_add(1, Ordering::Relaxed);
                if uri.path() == "/busy" { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK }
            });
            let app = Router::new().route("/{*any}", inside.clone()).route("/", inside).layer(layer.clone());
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            urls.push(format!("http://{}", listener.local_addr().unwrap()));
            serving.spawn(async { axum::serve(listener, app).await.unwrap() });
        }
        Services { urls, received, _serving: serving }
    }

    async fn one(layer: &ServerLayer) -> Self {
        Services::start(1, layer).await
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    async fn get(&self) -> Answer {
        Answer::of(&http(), &self.urls[0]).await
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Answer {
    status: u16,
    retry_after: Option<u64>,
    rate_limit: Option<String>,
    policy: Option<String>,
}

impl Answer {
    async fn of(http: &reqwest::Client, url: &str) -> Self {
        let response = http.get(url).send().await.unwrap();
        let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let answer = Answer {
            status: response.status().as_u16(),
            retry_after: header("retry-after").map(|seconds| seconds.parse().unwrap()),
            rate_limit: header("ratelimit"),
            policy: header("ratelimit-policy"),
        };
        // A connection is used again only if its answer was read to the end.
        response.bytes().await.unwrap();
        answer
    }
}

/// Checks that all were let in or told when to return, and counts both.
fn let_in_and_refused(answers: &[Answer]) -> (u64, u64) {
    let let_in = answers.iter().filter(|answer| answer.status == 200).count() as u64;
    let names_retry = |answer: &&Answer| answer.status == 429 && answer.retry_after.is_some_and(|seconds| seconds >= 1);
    (let_in, answers.iter().filter(names_retry).count() as u64)
}

#[tokio::test]
async fn bursts_are_throttled_before_they_are_refused() {
    let (nats, _running) = scheduler::alone(&api(2, "1s")).await;
    let resource = resource(&nats).await;
    let patient = Services::one(&ServerLayer::new(resource.clone()).wait(Duration::from_secs(20))).await;
    let clock = Clock::start();
    let answers = join_all((0..4).map(|_| patient.get())).await;
    assert_eq!(let_in_and_refused(&answers), (4, 0));
    let took = clock.now().since(Clock::START);
    assert!(took >= Span::from_millis(1000), "two at once, two more after 500 ms each: {took}");

    let impatient = Services::one(&ServerLayer::new(resource).wait(Duration::from_millis(100))).await;
    let answers = join_all((0..8).map(|_| impatient.get())).await;
    let (let_in, refused) = let_in_and_refused(&answers);
    assert!(refused >= 6 && let_in + refused == 8, "{answers:?}");
}

#[tokio::test]
async fn a_refusal_names_the_limit_and_every_answer_the_policy() {
    let (nats, _running) = scheduler::alone(&api(1, "1h")).await;
    let policy = Policy::new("few", 1, Duration::from_secs(3600)).unwrap();
    let services = Services::one(&ServerLayer::new(resource(&nats).await).policies([policy])).await;
    let policy = Some("\"few\";q=1;w=3600".to_owned());
    let rate_limit = Some("\"few\";r=0;t=3600".to_owned());
    let expected = Answer { status: 200, retry_after: None, rate_limit, policy: policy.clone() };
    assert_eq!(services.get().await, expected);
    let refused = services.get().await;
    let seconds = refused.retry_after.unwrap();
    assert!((3500..=3600).contains(&seconds), "{seconds}");
    let rate_limit = Some(format!("\"few\";r=0;t={seconds}"));
    assert_eq!(refused, Answer { status: 429, retry_after: Some(seconds), rate_limit, policy });
}

/// The layer asks for a permit with the labels and the cost that a closure makes of the head.
#[tokio::test]
async fn a_request_is_asked_for_with_the_labels_that_its_head_tells() {
    let (nats, _running) = scheduler::alone(&api(10, "1h")).await;
    let observer = nats::connect(&nats).await;
    let mut asks = observer.subscribe("rampmeter.permit.api").await.unwrap();
    observer.request("rampmeter.status.api", "".into()).await.unwrap();

    let layer = ServerLayer::new(resource(&nats).await).asking(|acquire, head| {
        let cost = head.headers.get("x-cost").map_or(1, |cost| cost.to_str().unwrap().parse().unwrap());
        acquire.cost(cost).label("route", head.uri.path()).label("method", head.method.as_str())
    });
    let services = Services::one(&layer).await;
    let request = http().get(format!("{}/tiles", services.urls[0])).header("x-cost", "3");
    assert_eq!(request.send().await.unwrap().status(), 200);

    let ask: Value = serde_json::from_slice(&within("an ask", asks.next()).await.unwrap().payload).unwrap();
    assert_eq!(ask["labels"], json!({"route": "/tiles", "method": "GET"}));
    assert_eq!((&ask["mode"], &ask["cost"]), (&json!("allow"), &json!({"requests": 3})));
    let too_long = http().get(format!("{}/{}", services.urls[0], "x".repeat(300))).send().await.unwrap();
    let too_much = http().get(&services.urls[0]).header("x-cost", "11").send().await.unwrap();
    assert_eq!((too_long.status().as_u16(), too_much.status().as_u16()), (400, 422));
    assert_eq!(services.received(), 1);
}

#[tokio::test]
async fn no_request_is_let_in_without_an_answer() {
    let nats = nats::start().await;
    let unreachable = Unreachable::Fail { after: Patience::new(Duration::from_millis(100)).unwrap() };
    let client = Client::builder().unreachable(unreachable).connect(nats.url()).await.unwrap();
    let services = Services::one(&ServerLayer::new(client.resource("api").unwrap())).await;
    let answer = services.get().await;
    assert_eq!((answer.status, services.received()), (503, 0));
    assert!(answer.retry_after.is_some_and(|seconds| seconds >= 1), "{answer:?}");
}

/// A service's 429 about other limits does not concern its own limit.
#[tokio::test]
async fn a_429_of_the_service_inside_is_not_told_to_the_scheduler() {
    let (nats, _running) = scheduler::alone(&api(10, "1h")).await;
    let services = Services::one(&ServerLayer::new(resource(&nats).await)).await;
    assert_eq!(Answer::of(&http(), &format!("{}/busy", services.urls[0])).await.status, 429);
    let worker = Worker::connect(&nats, "api").await;
    until("it is settled", async || (worker.status().await.counters.settled == 1).then_some(())).await;
    assert_eq!(services.get().await.status, 200);
    assert_eq!((services.received(), worker.status().await.counters.upstream_429), (2, 0));
}
