//! Pauses that answers of the upstream begin, as people are told of them.

use crate::prelude::*;

/// Nothing refills while a test runs, and either limit may have been exceeded.
const HUB: &str = r#"
[[resource]]
name = "hub"
start = "full"
fair_share = "client"
classes = [{ name = "urgent" }, { name = "bulk" }]
limit = [
    { name = "few", capacity = 100, period = "400h", margin = 0 },
    { name = "units", unit = "units", capacity = 100, period = "400h", margin = 0 },
]
"#;

/// A 429 that asks for this many seconds, on a call by `py-1`.
async fn rejected(worker: &Worker, id: &str, retry_after: u64) {
    let cost = json!({"requests": 1, "units": 1});
    let request = json!({"id": id, "mode": "allow", "class": "bulk", "cost": cost, "labels": {"client": "py-1"}});
    assert_eq!(worker.ask(request).await["status"], "granted");
    let response = json!({"status": 429, "headers": {"retry-after": retry_after.to_string()}});
    assert_eq!(worker.settle(json!({"id": id, "response": response})).await["status"], "settled");
}

/// Text without the ends of its lines.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_pause_is_told_in_the_same_words_everywhere() {
    let (nats, process, worker) = Worker::beside_process(RAMPMETER, HUB).await;
    rejected(&worker, "a", 600).await;
    let limit = worker.limit("few").await;
    let pause = limit.pause.clone().unwrap_or_else(|| panic!("{limit:?}"));
    assert!(pause.starts_with("the upstream asked for 600 s at "), "{pause}");
    let rest = " UTC (client `py-1`, limit unknown): paused for a minute on one client's word, then one probe";
    assert!(pause.ends_with(rest), "{pause}");
    let waiting = json!({"id": "held", "mode": "wait", "labels": {"client": "py-2", "route": "a"}}).to_string();
    let _waiting = worker.send("permit", waiting).await;
    worker.until_queued(1).await;
    for arguments in [&["status", "hub"][..], &["explain", "hub", "held"]] {
        let text = unwrapped(&printed_at(&nats, arguments).await.unwrap());
        assert!(text.contains(&pause), "{text}");
    }
    let told = async || process.log().lines().find(|line| line.contains(&pause)).map(str::to_owned);
    let line: Value = serde_json::from_str(&until("the log tells it", told).await).unwrap();
    let fields = &line["fields"];
    for (name, value) in [
        ("resource", json!("hub")),
        ("class", json!("bulk")),
        ("client", json!("py-1")),
        ("status", json!(429)),
        ("asked_s", json!(600.0)),
    ] {
        assert_eq!(fields[name], value, "{name}: {line}");
    }
    process.stop().await;
}

/// The log leaves out lines of one kind for a minute, but not the one that matters.
#[tokio::test]
async fn a_longer_pause_is_always_logged() {
    let (_nats, process, worker) = Worker::beside_process(RAMPMETER, HUB).await;
    for id in ["a", "b", "c", "d"] {
        let request = json!({"id": id, "mode": "allow", "cost": {"requests": 1}, "labels": {"client": "py-1"}});
        assert_eq!(worker.ask(request).await["status"], "granted");
    }
    for (id, retry_after) in [("a", "8"), ("b", "8"), ("c", "600"), ("d", "601")] {
        let response = json!({"status": 429, "headers": {"retry-after": retry_after}});
        worker.settle(json!({"id": id, "response": response})).await;
    }
    let asked = |secs: &str| process.log().matches(&format!("the upstream asked for {secs} s at")).count();
    until("the longer pause is logged", async || (asked("600") > 0).then_some(())).await;
    assert_eq!((asked("8"), asked("600"), asked("601")), (1, 1, 0), "{}", process.log());
    let pause = worker.limit("few").await.pause.unwrap();
    assert!(pause.contains("client `py-1`") && !pause.contains("limit unknown"), "{pause}");
    process.stop().await;
}
