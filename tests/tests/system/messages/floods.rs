//! A worker that sends without end harms itself. A quiet client is served meanwhile, places and
//! memory stay for other clients, and the log stays readable.

use crate::prelude::*;

/// A limit for the quiet client, and one for all other requests.
const HUB: &str = r#"
[[resource]]
name = "hub"
start = "full"
limit = [
    { name = "quiet", capacity = 100000, period = "1s", margin = 0, match = { client = "quiet" } },
    { name = "others", unit = "units", capacity = 1000, period = "1s", margin = 0 },
]
"#;

/// Elements of the longest array.
const ELEMENTS: usize = 1024;
/// Messages of one flood, and requests of the quiet client during it.
const FLOOD: usize = 200;
const ASKED: usize = 40;
/// The most bytes of one flood. NATS cuts off a reader that lags by 64 MiB.
const FLOOD_BYTES: usize = 48 << 20;

/// The inbox of the flood's answers.
const UNREAD: &str = "_INBOX_unread.x";

fn array(element: &Value) -> String {
    Value::Array(vec![element.clone(); ELEMENTS]).to_string()
}

/// Sends `payload` on the subject of `what` many times; a client that reads no answers.
fn flood(worker: &Worker, what: &'static str, payload: String) -> impl Future<Output = ()> {
    let (client, subject) = (worker.client().clone(), worker.subject(what));
    async move {
        for number in 0..FLOOD.min(FLOOD_BYTES / payload.len().max(1)) {
            let reply = format!("{UNREAD}.{number}");
            client.publish_with_reply(subject.clone(), reply, payload.clone().into()).await.unwrap();
            tokio::task::yield_now().await;
        }
        client.flush().await.unwrap();
    }
}

/// Waits until the scheduler has handled a flood: messages of one inbox are answered in order.
async fn until_handled(hostile: &Worker) {
    let last = format!("{UNREAD}.last");
    let mut answers = hostile.client().subscribe(last.clone()).await.unwrap();
    until("the flood is handled", async || {
        hostile.client().publish_with_reply(hostile.subject("permit"), last.clone(), "{}".into()).await.unwrap();
        tokio::time::timeout(Duration::from_secs(1), answers.next()).await.ok()
    })
    .await;
}

/// How long the quiet client's permits took, from the fastest to the slowest.
async fn ask_quietly(nats: &Server) -> Vec<Span> {
    let (worker, clock) = (Worker::connect(nats, "hub").await, Clock::start());
    let mut took = Vec::new();
    for _ in 0..ASKED {
        let asked = clock.now();
        let answer = worker.ask(json!({"labels": {"client": "quiet"}, "mode": "wait"})).await;
        assert_eq!(answer["status"], "granted", "{answer}");
        took.push(clock.now().since(asked));
    }
    took.sort();
    took
}

/// A quiet client gets all its permits during the flood, and the scheduler goes on after it.
#[allow(clippy::print_stdout, reason = "figures, shown with --nocapture")]
async fn check(name: &str, what: &'static str, payload: String) {
    let nats = nats::start().await;
    let mut process = Process::start(RAMPMETER, &nats, HUB).await;
    let hostile = Worker::connect(&nats, "hub").await;
    let (took, ()) = tokio::join!(ask_quietly(&nats), flood(&hostile, what, payload));
    println!("{name}: a quiet client's median {}, slowest {}", took[ASKED / 2], took[ASKED - 1]);
    let worker = Worker::connect(&nats, "hub").await;
    assert_eq!(worker.ask(json!({"labels": {"client": "quiet"}})).await["status"], "granted");
    until_handled(&hostile).await;
    let lines = process.log().lines().filter(|line| line.contains("WARN")).count();
    assert!(lines < 20, "{name}: {lines} warnings\n{}", process.log());
    process.terminate();
    assert!(process.ended().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_client_is_served_during_each_flood() {
    check("starts", "permit", array(&json!({"cost": {"units": 1}}))).await;
    check("free permits", "permit", array(&json!({"cost": {"units": 0}}))).await;
    check("tiny permits", "permit", array(&json!({"cost": {"units": 0.000_001}}))).await;
    check("unknown units", "permit", array(&json!({"cost": {"pixels": 1}}))).await;
    check("guesses", "settle", array(&json!({"id": "guess", "used": false}))).await;
    check("renewals", "settle", array(&json!({"id": "guess", "extend": true, "cost": {"units": 1}}))).await;
    check("wrong settles", "settle", array(&json!({"no": "id"}))).await;
    check("429", "settle", array(&json!({"id": "guess", "response": {"status": 429}}))).await;
    check("states", "status", String::new()).await;
    check("questions", "explain", String::new()).await;
    check("large messages", "permit", " ".repeat(1 << 19)).await;
}

#[tokio::test]
async fn one_array_of_wrong_settles_takes_one_line_of_the_log() {
    let (_nats, mut process, worker) = Worker::beside_process(RAMPMETER, HUB).await;
    let answers = worker.settle(Value::Array(vec![json!({"no": "id"}); ELEMENTS])).await;
    assert_eq!(answers.as_array().unwrap().len(), ELEMENTS);
    let throttled = vec![json!({"id": "guess", "response": {"status": 429}}); ELEMENTS];
    worker.settle(Value::Array(throttled)).await;
    process.terminate();
    process.ended().await;
    let count = |text: &str| process.log().lines().filter(|line| line.contains(text)).count();
    assert_eq!(count("a settle is not of the protocol"), 1);
    assert_eq!(count("the upstream answered 429"), 1);
}

#[tokio::test]
async fn one_array_books_no_day_ahead() {
    let (_nats, _running, worker) = Worker::beside_scheduler(HUB).await;
    let array = vec![json!({"cost": {"units": 1000}}); ELEMENTS];
    let answers = worker.ask(Value::Array(array)).await;
    let granted = |answer: &&Value| answer["status"] == "granted";
    let granted: Vec<&Value> = answers.as_array().unwrap().iter().filter(granted).collect();
    assert_eq!(granted.len(), 61, "a minute ahead");
    let refused = worker.ask(json!({"cost": {"units": 1000}})).await;
    assert_eq!(refused["code"], "not_in_time", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("`max_ahead`"), "{refused}");
    assert!(refused["retry_after_ms"].as_f64().unwrap() <= 1000.0, "{refused}");
}

#[tokio::test]
async fn renewals_of_unknown_calls_take_no_places_in_flight() {
    let time_to_live = Duration::from_secs(1);
    let (_nats, _running, worker) = Worker::beside_scheduler(&calls_in_flight(1, time_to_live)).await;
    let_pass(2 * time_to_live, "calls of a former leader have been renewed").await;
    let renewed = worker.settle(json!({"id": "stranger", "extend": true, "cost": {"requests": 1}})).await;
    assert_eq!(renewed["code"], "unknown_permit", "{renewed}");
    assert_eq!(worker.ask(json!({"mode": "allow"})).await["status"], "granted");
}
