//! What clients have used, day by day: over hand-overs and kills, and within bounds.

use crate::prelude::*;
use rampmeter_protocol::usage::DayUsage;

/// Calls count requests and units, and clients share two classes.
const HUB: &str = r#"
[[resource]]
name = "hub"
fair_share = "client"
classes = [{ name = "urgent" }, { name = "bulk" }]
limit = [
    { name = "requests-a-day", capacity = 1000000, period = "24h", margin = 0 },
    { name = "units-a-day", unit = "units", capacity = 1000000, period = "24h", margin = 0 },
]
"#;

/// Calls, requests and units by client and class.
type Sums = BTreeMap<String, (i64, f64, f64)>;

async fn usage(nats: &Server, arguments: &[&str]) -> String {
    printed_at(nats, &[&["usage"], arguments].concat()).await.unwrap()
}

/// The sums of two days, because midnight may come during a test.
async fn sums(nats: &Server) -> Sums {
    let days: Vec<DayUsage> = serde_json::from_str(&usage(nats, &["hub", "--days", "2", "--json"]).await).unwrap();
    let mut sums = Sums::new();
    for used in days.iter().flat_map(|day| &day.clients) {
        let sum = sums.entry(format!("{} {}", used.client, used.class)).or_default();
        let unit = |unit: &str| used.units.iter().find(|(name, _)| ***name == *unit).map_or(0.0, |(_, used)| *used);
        *sum = (sum.0 + used.calls, sum.1 + unit("requests"), sum.2 + unit("units"));
    }
    sums
}

async fn until_used(nats: &Server, expected: &[(&str, (i64, f64, f64))]) {
    let expected: Sums = expected.iter().map(|(who, used)| ((*who).to_owned(), *used)).collect();
    until("the usage is written", async || (sums(nats).await == expected).then_some(())).await;
}

fn call(id: &str, client: &str, class: &str, units: u32) -> Value {
    json!({"id": id, "labels": {"client": client}, "class": class, "cost": {"requests": 1, "units": units}})
}

#[tokio::test]
async fn a_hand_over_adds_and_a_kill_keeps_what_was_written() {
    let (nats, mut first, worker) = Worker::beside_process(RAMPMETER, HUB).await;
    worker.ask(call("a-1", "a", "urgent", 5)).await;
    worker.ask(call("a-2", "a", "urgent", 7)).await;
    worker.ask(call("b-1", "b", "bulk", 100)).await;
    worker.settle(json!({"id": "a-1", "cost": {"units": 2.5}})).await;
    // The hand-over writes what was used in the last seconds.
    first.terminate();
    assert!(first.ended().await.success(), "{}", first.log());
    let mut second = Process::start(RAMPMETER, &nats, HUB).await;
    until_used(&nats, &[("a urgent", (2, 2.0, 9.5)), ("b bulk", (1, 1.0, 100.0))]).await;
    // A successor corrects the calls of its predecessor, for the same client.
    worker.settle(json!({"id": "a-2", "cost": {"units": 1}})).await;
    worker.settle(json!({"id": "b-1", "used": false})).await;
    worker.ask(call("c-1", "c", "bulk", 3)).await;
    let expected = [("a urgent", (2, 2.0, 3.5)), ("b bulk", (0, 0.0, 0.0)), ("c bulk", (1, 1.0, 3.0))];
    until_used(&nats, &expected).await;
    second.kill().await;
    let third = Process::start(RAMPMETER, &nats, HUB).await;
    until_used(&nats, &expected).await;
    worker.ask(call("c-2", "c", "bulk", 4)).await;
    let expected = [("a urgent", (2, 2.0, 3.5)), ("b bulk", (0, 0.0, 0.0)), ("c bulk", (2, 2.0, 7.0))];
    until_used(&nats, &expected).await;
    third.stop().await;
}

#[tokio::test]
async fn hostile_names_are_bounded_escaped_and_no_formulas() {
    let (nats, _running, worker) = Worker::beside_scheduler(HUB).await;
    let hostile =
        ["=cmd|'/C calc'!A0", "\u{1b}[2J", "a\",\"b\r\nc", "(others)", "😀".repeat(60).as_str()].map(str::to_owned);
    for (number, client) in hostile.iter().enumerate() {
        worker.ask(call(&format!("hostile-{number}"), client, "bulk", 1)).await;
    }
    until("they are written", async || (sums(&nats).await.len() == hostile.len()).then_some(())).await;
    let calls: Vec<Value> =
        (0..400).map(|number| call(&format!("id-{number}"), &format!("client-{number}"), "bulk", 1)).collect();
    worker.ask(Value::Array(calls)).await;
    let written = until("they are written", async || {
        let written = sums(&nats).await;
        (written.values().map(|(calls, ..)| calls).sum::<i64>() == 405).then_some(written)
    })
    .await;
    assert_eq!(written.len(), 257, "256 clients and the others");
    assert!(written["(others) bulk"].0 >= 405 - 256, "{:?}", written["(others) bulk"]);
    let csv = usage(&nats, &["hub", "--csv"]).await;
    assert!(csv.starts_with("day,resource,client,class,unit,amount\n"), "{csv}");
    assert!(csv.contains("\"'=cmd|'/C calc'!A0\",bulk,units,1\n"), "{csv}");
    assert!(csv.contains("\"a\"\",\"\"b\r\nc\",bulk,(calls),1\n"), "{csv}");
    let shown = usage(&nats, &["hub"]).await;
    assert!(!shown.contains('\u{1b}') && shown.contains("\\u{1b}[2J"), "{shown}");
}
