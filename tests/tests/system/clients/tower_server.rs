//! The layer for servers, in front of axum service on the loopback.

#![allow(clippy::print_stdout, reason = "a failure, or --nocapture, shows what was measured")]

use crate::prelude::*;
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::routing;
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

/// A service behind a layer, until the runtime of its test ends.
struct Service {
    url: String,
    /// Requests that have reached the service inside.
    received: Arc<AtomicU64>,
}

impl Service {
    async fn start(layer: &ServerLayer) -> Self {
        let received = Arc::<AtomicU64>::default();
        let counted = received.clone();
        let inside = routing::get(async move |uri: Uri| {
            counted.fetch_add(1, Ordering::Relaxed);
            if uri.path() == "/busy" { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK }
        });
        let app = Router::new().route("/{*any}", inside.clone()).route("/", inside).layer(layer.clone());
        Service { url: serve(app).await, received }
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    async fn get(&self) -> Response {
        get(&self.url).await
    }
}

async fn get(url: &str) -> Response {
    Response::read(http().get(url).send().await.unwrap()).await
}

/// Checks that all were let in or told when to return, and counts both.
fn let_in_and_refused(answers: &[Response]) -> (u64, u64) {
    let let_in = answers.iter().filter(|answer| answer.status == 200).count() as u64;
    let names_retry = |answer: &&Response| answer.status == 429 && retry_after(answer) >= Some(1);
    (let_in, answers.iter().filter(names_retry).count() as u64)
}

fn retry_after(answer: &Response) -> Option<u64> {
    answer.header("retry-after").map(|seconds| seconds.parse().unwrap())
}

#[tokio::test]
async fn bursts_are_throttled_before_they_are_refused() {
    let (nats, _running) = scheduler::alone(&api(2, "1s")).await;
    let resource = resource(&nats).await;
    let patient = Service::start(&ServerLayer::new(resource.clone()).wait(Duration::from_secs(20))).await;
    let clock = Clock::start();
    let answers = join_all((0..4).map(|_| patient.get())).await;
    assert_eq!(let_in_and_refused(&answers), (4, 0));
    let took = clock.now().since(Clock::START);
    assert!(took >= Span::from_millis(1000), "two at once, two more after 500 ms each: {took}");

    let impatient = Service::start(&ServerLayer::new(resource).wait(Duration::from_millis(100))).await;
    let answers = join_all((0..8).map(|_| impatient.get())).await;
    let (let_in, refused) = let_in_and_refused(&answers);
    assert!(refused >= 6 && let_in + refused == 8, "{answers:?}");
}

#[tokio::test]
async fn a_refusal_names_the_limit_and_every_answer_the_policy() {
    let (nats, _running) = scheduler::alone(&api(1, "1h")).await;
    let policy = Policy::new("few", 1, Duration::from_secs(3600)).unwrap();
    let service = Service::start(&ServerLayer::new(resource(&nats).await).policies([policy])).await;
    let told = |answer: &Response| {
        ["ratelimit", "ratelimit-policy"].map(|name| answer.header(name).unwrap_or_default().to_owned())
    };
    let policy = "\"few\";q=1;w=3600".to_owned();
    let passed = service.get().await;
    assert_eq!((passed.status, retry_after(&passed)), (200, None));
    assert_eq!(told(&passed), ["\"few\";r=0;t=3600".to_owned(), policy.clone()]);
    let refused = service.get().await;
    let seconds = retry_after(&refused).unwrap();
    assert!(refused.status == 429 && (3500..=3600).contains(&seconds), "{seconds}");
    assert_eq!(told(&refused), [format!("\"few\";r=0;t={seconds}"), policy]);
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
    let service = Service::start(&layer).await;
    let request = http().get(format!("{}/tiles", service.url)).header("x-cost", "3");
    assert_eq!(request.send().await.unwrap().status(), 200);

    let ask: Value = serde_json::from_slice(&within("an ask", asks.next()).await.unwrap().payload).unwrap();
    assert_eq!(ask["labels"], json!({"route": "/tiles", "method": "GET"}));
    assert_eq!((&ask["mode"], &ask["cost"]), (&json!("allow"), &json!({"requests": 3})));
    let too_long = http().get(format!("{}/{}", service.url, "x".repeat(300))).send().await.unwrap();
    let too_much = http().get(&service.url).header("x-cost", "11").send().await.unwrap();
    assert_eq!((too_long.status().as_u16(), too_much.status().as_u16()), (400, 422));
    assert_eq!(service.received(), 1);
}

#[tokio::test]
async fn no_request_is_let_in_without_an_answer() {
    let nats = nats::start().await;
    let unreachable = Unreachable::Fail { after: Patience::new(Duration::from_millis(100)).unwrap() };
    let client = Client::builder().unreachable(unreachable).connect(nats.url()).await.unwrap();
    let service = Service::start(&ServerLayer::new(client.resource("api").unwrap())).await;
    let answer = service.get().await;
    assert_eq!((answer.status, service.received()), (503, 0));
    assert!(retry_after(&answer) >= Some(1), "{answer:?}");
}

/// A service's 429 about other limits does not concern its own limit.
#[tokio::test]
async fn a_429_of_the_service_inside_is_not_told_to_the_scheduler() {
    let (nats, _running) = scheduler::alone(&api(10, "1h")).await;
    let service = Service::start(&ServerLayer::new(resource(&nats).await)).await;
    assert_eq!(get(&format!("{}/busy", service.url)).await.status, 429);
    let worker = Worker::connect(&nats, "api").await;
    until("it is settled", async || (worker.status().await.counters.settled == 1).then_some(())).await;
    assert_eq!(service.get().await.status, 200);
    assert_eq!((service.received(), worker.status().await.counters.upstream_429), (2, 0));
}
