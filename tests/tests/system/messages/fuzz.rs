//! Messages with changed bytes: each gets one typed answer, and none ends the scheduler. The decoders
//! have more of them (`tests/tests/decoders.rs`), and the hostile worker goes on for minutes.

use crate::prelude::*;
use rampmeter_tests::hostile::Hostile;

/// Enough for every message. Another dialect would believe settles that nothing is left.
const HUB: &str = r#"
[[resource]]
name = "hub"
dialect = "plain"
classes = [{ name = "urgent" }, { name = "bulk" }]
limit = [
    { name = "requests", capacity = 10000000, period = "8000h", margin = 0 },
    { name = "units", unit = "units", capacity = 10000000, period = "8000h", margin = 0 },
]
"#;

/// Valid requests; `#` stands for a number.
const PERMITS: [&str; 6] = [
    r#"{"id": "p#", "cost": {"requests": 1, "units": 2.5}, "class": "bulk", "labels": {"client": "a", "route": "/ü"}}"#,
    r#"{"id":"p#","mode":"allow","cost":{"units":1.25}}"#,
    r#"{"id":"p#","mode":"wait","max_wait_ms":1000,"age_ms":12.5,"progress":true}"#,
    r#"{"id": "p#", "mode": "reserve", "sent_unix_ms": 1795000000000, "cost": {"requests": 0}}"#,
    r#"{"cost": {"requests": 1e0}}"#,
    "{}",
];

/// Valid settles of permits that were granted.
const SETTLES: [&str; 5] = [
    r#"{"id":"s#","used":false}"#,
    r#"{"id": "s#", "used": true, "cost": {"units": 3.75}, "elapsed_ms": 81.25, "late_ms": 0.5}"#,
    r#"{"id":"s#","response":{"status":200,"headers":{"retry-after":"1500","x-ratelimit-resource":"core"}}}"#,
    r#"{"id": "s#", "extend": true}"#,
    r#"{"id":"s#","cost":{"requests":0,"units":1}}"#,
];

/// Messages of each kind.
const MESSAGES: usize = 5_000;
/// Messages under way at a time.
const AT_ONCE: usize = 500;

/// Sends changed messages, and looks for one answer to each, with one of these states.
async fn check(what: &str, templates: &[&str], states: [&str; 2]) {
    let (nats, _running) = scheduler::alone(HUB).await;
    let (worker, mut hostile) = (Worker::connect(&nats, "hub").await, Hostile::new(7, &["hub"]));
    let inbox = worker.client().new_inbox();
    let mut replies = worker.client().subscribe(format!("{inbox}.*")).await.unwrap();
    for first in (0..MESSAGES).step_by(AT_ONCE) {
        // A changed settle may tell of a refusal, which pauses all calls.
        worker.request("thaw", "").await;
        let numbers = first..first + AT_ONCE;
        // One id has nothing in common with the next, so that a changed one is no other's.
        let id = |number: usize| (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_string();
        worker.ask(numbers.clone().map(|number| json!({ "id": format!("s{}", id(number)) })).collect()).await;
        let mut messages = BTreeMap::new();
        for number in numbers {
            let message = templates[number % templates.len()].replace('#', &id(number));
            let message = hostile.changed(message.into_bytes());
            messages.insert(number, message.clone());
            let reply = format!("{inbox}.{number}");
            worker.client().publish_with_reply(worker.subject(what), reply, message.into()).await.unwrap();
        }
        while !messages.is_empty() {
            let answer = within("an answer", replies.next()).await.unwrap();
            let number: usize = answer.subject.rsplit('.').next().unwrap().parse().unwrap();
            let answer = body(&answer);
            // A change may make an array of a message.
            let elements = answer.as_array().cloned().unwrap_or_else(|| vec![answer.clone()]);
            if answer["status"] == "queued" {
                continue;
            }
            let message = messages.remove(&number).unwrap_or_else(|| panic!("{number} has a second answer: {answer}"));
            let is_known = |answer: &Value| states.contains(&answer["status"].as_str().unwrap());
            assert!(elements.iter().all(is_known), "{}: {answer}", String::from_utf8_lossy(&message));
        }
    }
    worker.request("thaw", "").await;
    assert_eq!(worker.ask(json!({})).await["status"], "granted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_permits() {
    check("permit", &PERMITS, ["granted", "refused"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_settles() {
    check("settle", &SETTLES, ["settled", "refused"]).await;
}
