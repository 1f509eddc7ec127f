//! Pauses that an operator orders.

use crate::prelude::*;
use rampmeter_protocol::reason::PauseCause;

/// Nothing refills while a test runs.
const HUB: &str = r#"
[[resource]]
name = "hub"
limit = [
    { name = "few", capacity = 100, period = "400h", margin = 0 },
    { name = "each", capacity = 100, period = "400h", key = ["client"], margin = 0 },
]
"#;

#[tokio::test]
async fn an_operator_pauses_limits_for_a_bounded_time() {
    let (nats, folder) = (nats::start().await, tempfile::tempdir().unwrap());
    let log = folder.path().join("log");
    let stderr = std::fs::File::create(&log).unwrap();
    let _process = Process::begin_on(RAMPMETER, &scheduler::configuration(nats.url(), HUB), stderr);
    let worker = Worker::connect(&nats, "hub").await;
    worker.status_of_leader().await;
    worker.ask(json!({"id": "later", "cost": {"requests": 100}})).await;

    let run = async |arguments: &[&str]| printed_at(&nats, arguments).await;
    let frozen = run(&["freeze", "hub", "--limit", "few", "--for", "10m"]).await;
    assert_eq!(frozen.as_deref(), Ok("hub: few frozen for 10 min\n"));
    let limit = worker.limit("few").await;
    assert!((500_000.0..=600_000.0).contains(&limit.frozen_ms), "{limit:?}");
    assert_eq!(limit.paused_by, Some(PauseCause::Operator));
    let refused = worker.ask(json!({"mode": "allow"})).await;
    assert_eq!((&refused["status"], &refused["limited_by"]), (&json!("refused"), &json!("few")), "{refused}");
    let status = run(&["status", "hub"]).await.unwrap();
    assert!(status.contains("an operator pauses it for 10 min"), "{status}");
    let _waiting = worker.send("permit", json!({"id": "held", "mode": "wait"}).to_string()).await;
    worker.until_queued(1).await;
    let explained = run(&["explain", "hub", "held"]).await.unwrap();
    assert!(explained.contains("an operator demanded a pause of `few`"), "{explained}");

    let frozen = run(&["freeze", "hub"]).await;
    assert_eq!(frozen.as_deref(), Ok("hub: few frozen for 1 min\n"), "a limit with keys is left out");
    assert!(worker.limit("few").await.frozen_ms > 500_000.0, "the longer pause stays");
    assert_eq!(run(&["thaw", "hub"]).await.as_deref(), Ok("hub: few thawed\n"));
    let lines = until("the order is in the log", async || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.contains("an operator has paused limits").then_some(text)
    });
    let lines = lines.await;
    assert!(lines.contains("few") && lines.contains("600"), "{lines}");
}

/// Starts that were promised within the pause are void, and their holders hear of it.
#[tokio::test]
async fn a_freeze_is_told_to_the_holders_of_promises() {
    let (_nats, _running, worker) = Worker::beside_scheduler(&HUB.replace("400h", "100s")).await;
    let mut events = worker.events().await;
    worker.ask(json!([{"cost": {"requests": 100}}, {"cost": {"requests": 10}}])).await;
    let done = body(&worker.request("freeze", r#"{"for_ms": 3600000}"#).await);
    assert_eq!((&done["limits"], &done["epoch"]), (&json!(["few"]), &json!(1)), "{done}");
    let announced = event(&mut events, "freeze").await;
    assert_eq!((&announced["limits"], &announced["for_ms"]), (&json!(["few"]), &json!(3_600_000.0)), "{announced}");
}

#[tokio::test]
async fn a_wrong_freeze_is_refused_with_its_reason() {
    let (nats, _running, worker) = Worker::beside_scheduler(HUB).await;
    #[rustfmt::skip]
    let table = [
        (vec!["--for", "25h"],                      "`for_ms`: a freeze lasts from a millisecond to a day"),
        (vec!["--for", "0s"],                       "`for_ms`: a freeze lasts from a millisecond to a day"),
        (vec!["--limit", "each"],                   "`limit`: each key has a bucket of its own, which no order freezes"),
        (vec!["--limit", "fwe"],                    "`limit`: no such limit; there are `few`, `each`"),
    ];
    for (arguments, why) in table {
        let errors = printed_at(&nats, &[&["freeze", "hub"], &arguments[..]].concat()).await.unwrap_err();
        assert!(errors.contains(why), "{arguments:?}: {errors}");
    }
    let refused = body(&worker.request("freeze", "[]").await);
    assert_eq!(refused["code"], "invalid_request", "{refused}");
    assert_eq!(worker.limit("few").await.paused_by, None);
}
