//! What workers report between the last state of a leader and its successor's first message.

use crate::RAMPMETER;
use async_nats::StatusCode;
use rampmeter_tests::holder::calls_in_flight;
use rampmeter_tests::prelude::*;

/// A lost settle would hold its place far beyond the test.
const TIME_TO_LIVE: Duration = Duration::from_secs(600);

/// Returns once the leader grants no permits any more.
async fn gives_up(worker: &Worker) {
    let gives_up = async {
        loop {
            let answer = worker.request("permit", r#"{"mode": "allow"}"#).await;
            if answer.status == Some(StatusCode::NO_RESPONDERS) || body(&answer)["code"] == "unavailable" {
                return;
            }
        }
    };
    within("the leader gives the resource up", gives_up).await;
}

#[tokio::test]
async fn a_hand_over_loses_no_settle() {
    let nats = nats::start().await;
    let hub = calls_in_flight(5, TIME_TO_LIVE).replace("api", "hub");
    let configuration = scheduler::configuration(nats.url(), &hub);
    let mut pair = Pair::start(RAMPMETER, [&configuration; 2]).await;
    let worker = Worker::connect(&nats, "hub").await;
    for id in ["settled", "unused", "rejected", "asked", "renewed"] {
        assert_eq!(worker.ask(json!({ "id": id })).await["status"], "granted");
    }
    let leader = pair.leader().await;

    pair.process(leader).terminate();
    gives_up(&worker).await;
    worker.tell("settle", r#"{"id": "settled"}"#).await;
    worker.tell("settle", r#"[{"id": "unused", "used": false}]"#).await;
    let rejected = json!({"id": "rejected", "response": {"status": 429, "headers": {"retry-after": "60"}}});
    worker.tell("settle", rejected.to_string()).await;
    let mut asked = worker.send("settle", r#"{"id": "asked"}"#).await;
    let mut renewed = worker.send("settle", r#"{"id": "renewed", "extend": true}"#).await;

    assert!(pair.process_mut(leader).ended().await.success());
    let answers = [asked.body().await, renewed.body().await];
    assert_eq!(answers[0], json!({"status": "settled", "id": "asked"}));
    assert_eq!(answers[1], json!({"status": "settled", "id": "renewed", "extended": true}));
    let status = worker.status_of_leader().await;
    assert_eq!((status.epoch, status.limits[0].level), (Epoch::new(2), 4.0), "one call goes on");
    assert!(status.limits[0].next_free_ms > 30_000.0, "the upstream asked for a pause: {status:?}");
}
