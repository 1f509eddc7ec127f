//! Classes that a NATS user may ask for. A class is part of the subject, and the permissions of the
//! server deny subjects.

use crate::nats::permissions::User;
use crate::prelude::*;

/// Nothing refills while a test runs.
const HUB: &str = r#"
[[resource]]
name = "hub"
classes = [{ name = "interactive" }, { name = "standard" }, { name = "bulk" }]
default_class = "standard"
start = "full"
limit = [{ name = "many", capacity = 1000, period = "400h", margin = 0 }]
"#;

/// A server with the shipped users, and a scheduler that leads `hub`.
async fn stage() -> (Server, Running) {
    let nats = shipped::single().await;
    let scheduler = shipped::lead(&nats, HUB).await;
    (nats, scheduler)
}

/// How many permits each class got.
async fn granted_by_class(scheduler: &Running) -> [f64; 3] {
    let page = scheduler::metrics(scheduler).await;
    let granted = |class| page.value("rampmeter_wait_seconds_count", &[("resource", "hub"), ("class", class)]);
    ["interactive", "standard", "bulk"].map(granted)
}

#[tokio::test]
async fn a_bulk_worker_gets_permits_of_its_class_and_of_no_other() {
    let (nats, _scheduler) = stage().await;
    let mut bulk = User::connect(&nats, "bulk").await;
    for stated in [json!({"id": "a"}), json!({"id": "b", "class": "bulk"})] {
        let granted = bulk.request("rampmeter.permit-bulk.hub", stated).await;
        assert_eq!(granted["status"], "granted", "{granted}");
    }
    let refused = bulk.request("rampmeter.permit-bulk.hub", json!({"id": "c", "class": "interactive"})).await;
    let message = "`class`: this subject is for `bulk`; leave `class` out, or ask on the subject of the other class";
    assert_eq!((&refused["code"], &refused["message"]), (&json!("invalid_request"), &json!(message)));
    assert!(bulk.publish("rampmeter.permit-bulk.hub").await.is_empty());
    for denied in ["rampmeter.permit.hub", "rampmeter.permit-interactive.hub", "rampmeter.permit-standard.hub"] {
        assert_eq!(bulk.publish(denied).await.len(), 1, "{denied}");
    }
    let settled = bulk.request("rampmeter.settle.hub", json!({"id": "a"})).await;
    assert_eq!(settled["status"], "settled");
}

#[tokio::test]
async fn every_element_of_an_array_is_of_the_class_in_the_subject() {
    let (nats, _scheduler) = stage().await;
    let bulk = User::connect(&nats, "bulk").await;
    let array = json!([{"id": "a"}, {"id": "b", "class": "interactive"}, {"id": "c", "class": "bulk"}]);
    let answers = bulk.request("rampmeter.permit-bulk.hub", array).await;
    let statuses: Vec<&str> =
        answers.as_array().unwrap().iter().map(|answer| answer["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["granted", "refused", "granted"]);
}

/// The SDK on behalf of a user that may ask for one class only, and of one that may ask for all.
#[tokio::test]
async fn the_sdk_names_each_class_in_a_subject() {
    let (nats, scheduler) = stage().await;
    let of_user = async |user: &str, inbox: &str| {
        let client = Client::builder().options(shipped::login(user)).inbox_prefix(inbox).class_in_subject();
        client.connect(nats.url()).await.unwrap().resource("hub").unwrap()
    };
    let (bulk, worker) = (of_user("bulk", "_INBOX_bulk").await, of_user("worker", "_INBOX_worker").await);
    let asked = (0..300).map(|number| match number % 4 {
        0 => bulk.acquire(1).class("bulk"),
        1 => worker.acquire(1).class("bulk"),
        2 => worker.acquire(1).class("interactive"),
        _ => worker.acquire(1),
    });
    for permit in within("all permits", join_all(asked.map(IntoFuture::into_future))).await {
        permit.unwrap().begin().settle(Outcome::status(200));
    }
    assert_eq!(granted_by_class(&scheduler).await, [75.0, 75.0, 150.0]);
}

/// A cancellation that overtook its request would leave a permit without a caller.
#[tokio::test]
async fn requests_and_settles_stay_in_order_whatever_their_subjects() {
    const ASKED: u64 = 300;
    let (_nats, _scheduler, worker) = Worker::beside_scheduler(HUB).await;
    let answers = worker.send("permit-bulk", json!({"id": "first"}).to_string()).await;
    for number in 0..ASKED {
        worker
            .send_also(&answers, "permit-bulk", json!({"id": format!("p-{number}"), "mode": "wait"}).to_string())
            .await;
        worker.send_also(&answers, "settle", json!({"id": format!("p-{number}"), "used": false}).to_string()).await;
    }
    assert_eq!(worker.status().await.counters.returned, ASKED);
}
