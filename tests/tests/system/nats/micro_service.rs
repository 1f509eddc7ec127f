//! What NATS' own tools show of schedulers: `nats micro ls`, `info` and `stats` (ADR-32).

use crate::prelude::*;

/// The fields that every answer has by the schemas of NATS, and those of a kind.
const COMMON: [&str; 5] = ["type", "name", "id", "version", "metadata"];
const INFO: [&str; 2] = ["description", "endpoints"];
const STATS: [&str; 2] = ["started", "endpoints"];
const ENDPOINT: [&str; 3] = ["name", "subject", "queue_group"];
const COUNTS: [&str; 5] = ["num_requests", "num_errors", "last_error", "processing_time", "average_processing_time"];

async fn srv(worker: &Worker, subject: &str) -> Value {
    body(&within("an answer", worker.client().request(subject.to_owned(), "".into())).await.unwrap())
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn is_word(value: &Value) -> bool {
    let text = value.as_str().unwrap();
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// The endpoint of this name.
fn endpoint<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let all = answer["endpoints"].as_array().unwrap();
    all.iter().find(|endpoint| endpoint["name"] == name).unwrap_or_else(|| panic!("{name}: {answer}"))
}

fn names(answer: &Value) -> Vec<&str> {
    answer["endpoints"].as_array().unwrap().iter().map(|endpoint| endpoint["name"].as_str().unwrap()).collect()
}

/// The fields of each answer, no more and no less, in the forms that tools parse.
#[track_caller]
fn check_form(answer: &Value, kind: &str, own: &[&str], of_endpoint: &[&str]) {
    let expected: BTreeSet<&str> = COMMON.iter().chain(own).copied().collect();
    assert_eq!(keys(answer), expected);
    assert_eq!(answer["type"], format!("io.nats.micro.v1.{kind}_response"));
    assert!(is_word(&answer["name"]) && is_word(&answer["id"]), "{answer}");
    let version: Vec<&str> = answer["version"].as_str().unwrap().split('.').collect();
    assert!(version.len() == 3 && version.iter().all(|part| part.parse::<u32>().is_ok()), "{answer}");
    assert!(answer["metadata"].as_object().unwrap().values().all(Value::is_string), "{answer}");
    for endpoint in answer.get("endpoints").and_then(Value::as_array).into_iter().flatten() {
        let fields = keys(endpoint);
        assert!(of_endpoint.iter().all(|field| fields.contains(field)), "{endpoint}");
        let known = |field: &&str| of_endpoint.contains(field) || ["metadata", "data"].contains(field);
        assert!(fields.iter().all(known) && is_word(&endpoint["name"]), "{endpoint}");
        assert!(endpoint.get("data").is_none_or(Value::is_object), "{endpoint}");
        let counts = COUNTS.iter().filter(|count| **count != "last_error" && of_endpoint.contains(count));
        assert!(counts.into_iter().all(|count| endpoint[count].is_u64()), "{endpoint}");
    }
}

#[tokio::test]
async fn answers_have_the_form_that_tools_of_nats_read() {
    let (_nats, _running, worker) = Worker::beside_scheduler(FOUR).await;
    let id = srv(&worker, "$SRV.PING").await["id"].as_str().unwrap().to_owned();
    assert_eq!(id, worker.status().await.leader);
    let counted: Vec<&str> = ENDPOINT.iter().chain(&COUNTS).copied().collect();
    for suffix in [String::new(), ".rampmeter".to_owned(), format!(".rampmeter.{id}")] {
        check_form(&srv(&worker, &format!("$SRV.PING{suffix}")).await, "ping", &[], &[]);
        let info = srv(&worker, &format!("$SRV.INFO{suffix}")).await;
        check_form(&info, "info", &INFO, &ENDPOINT);
        assert_eq!((&info["name"], &info["id"]), (&json!("rampmeter"), &json!(id)));
        assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!((&info["metadata"]["resources"], &info["metadata"]["leader"]), (&json!("hub"), &json!(id)));
        let stats = srv(&worker, &format!("$SRV.STATS{suffix}")).await;
        check_form(&stats, "stats", &STATS, &counted);
        let started = stats["started"].as_str().unwrap();
        assert!(started.starts_with("20") && started.contains('T') && started.ends_with('Z'), "{started}");
    }
}

#[tokio::test]
async fn counts_and_times_are_those_of_the_permit_loop() {
    let (_nats, _running, worker) = Worker::beside_scheduler(FOUR).await;
    worker.ask(json!({"id": "one"})).await;
    worker.ask(json!([{"id": "two"}, {"id": "three"}])).await;
    let refused = worker.ask(json!({"cost": {"unknown": 1}})).await;
    assert_eq!(refused["status"], "refused", "{refused}");
    let _waiting = worker.send("permit", r#"{"id": "four", "cost": {"requests": 3}, "mode": "wait"}"#).await;
    worker.settle(json!({"id": "one"})).await;
    let refusal = worker.settle(json!({"id": "nobody"})).await;
    assert_eq!(refusal["status"], "refused", "{refusal}");
    worker.status().await;
    within("an answer", worker.client().request("rampmeter.resources", "".into())).await.unwrap();

    let info = srv(&worker, "$SRV.INFO.rampmeter").await;
    let stats = srv(&worker, "$SRV.STATS.rampmeter").await;

    #[rustfmt::skip]
    let table = [
        ("resources", "rampmeter.resources", 1, 0, ""),
        ("permit-hub", "rampmeter.permit.hub", 4, 1, refused["code"].as_str().unwrap()),
        ("settle-hub", "rampmeter.settle.hub", 2, 1, refusal["code"].as_str().unwrap()),
        ("status-hub", "rampmeter.status.hub", 1, 0, ""),
    ];
    for (name, subject, requests, errors, last) in table {
        let stats = endpoint(&stats, name);
        assert_eq!((&stats["subject"], &endpoint(&info, name)["subject"]), (&json!(subject), &json!(subject)));
        assert_eq!((&stats["num_requests"], &stats["num_errors"]), (&json!(requests), &json!(errors)), "{stats}");
        assert_eq!(stats["last_error"], last, "{stats}");
        let time = stats["processing_time"].as_u64().unwrap();
        assert!(time > 0 && time < 1_000_000_000, "{stats}");
        assert_eq!(stats["average_processing_time"], time / requests, "{stats}");
    }
    assert_eq!(
        (names(&info), endpoint(&info, "permit-hub")["metadata"]["resource"].as_str()),
        (names(&stats), Some("hub"))
    );
    let data = &endpoint(&stats, "permit-hub")["data"];
    assert!(data["level"]["few"].as_f64().is_some_and(|level| (level - 1.0).abs() < 0.01), "{data}");
    let counted = (&data["epoch"], &data["queued"], &data["limited_by"]);
    assert_eq!(counted, (&json!(1), &json!(1), &json!("few")), "{data}");
}

#[tokio::test]
async fn a_standby_serves_no_permits_until_it_leads() {
    let (nats, first) = scheduler::alone(FOUR).await;
    let second = scheduler::start(&nats, FOUR).await;
    let worker = Worker::connect(&nats, "hub").await;
    let leader = worker.status().await.leader;
    let all = all_infos(&nats).await;
    assert_eq!(all.len(), 2, "{all:#?}");
    for info in &all {
        assert_eq!(names(info).contains(&"permit-hub"), info["id"] == leader, "{info}");
    }
    scheduler::stop(first).await;
    until("the standby's endpoints", async || {
        let all = all_infos(&nats).await;
        (all.len() == 1 && names(&all[0]).contains(&"permit-hub") && all[0]["id"] != leader).then_some(())
    })
    .await;
    drop(second);
}

/// The answers of both schedulers, as far as they are here soon.
async fn all_infos(nats: &Server) -> Vec<Value> {
    let client = nats::connect(nats).await;
    let inbox = client.new_inbox();
    let answers = client.subscribe(inbox.clone()).await.unwrap();
    client.publish_with_reply("$SRV.INFO.rampmeter", inbox, "".into()).await.unwrap();
    let soon = tokio::time::timeout(Duration::from_millis(500), std::future::pending::<()>());
    answers.take_until(soon).map(|answer| body(&answer)).collect().await
}

/// Schedulers answer these questions only to subjects to which they would answer clients.
#[tokio::test]
async fn an_answer_goes_to_inboxes_only() {
    let (_nats, _running, worker) = Worker::beside_scheduler(FOUR).await;
    let mut heard = worker.client().subscribe("rampmeter.event.hub").await.unwrap();
    for subject in ["$SRV.PING", "$SRV.INFO", "$SRV.STATS", "rampmeter.resources"] {
        worker.client().publish_with_reply(subject, "rampmeter.event.hub", "".into()).await.unwrap();
    }
    // Answers of one connection keep their order: a later answer is here first.
    srv(&worker, "$SRV.PING").await;
    srv(&worker, "$SRV.STATS").await;
    worker.client().publish("rampmeter.event.hub", "last".into()).await.unwrap();
    assert_eq!(within("an event", heard.next()).await.unwrap().payload, "last");
}
