//! The wire protocol, subject by subject, for any NATS client.

use crate::prelude::*;
use async_nats::Message;

/// A worker of [`TWO_UNITS`] that has left no request.
async fn exhausted() -> (Server, Running, Worker) {
    let (nats, running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    assert_eq!(worker.ask(json!({"cost": {"requests": 4}})).await["delay_ms"], 0.0);
    (nats, running, worker)
}

/// `answer` without what differs from run to run: durations in whole 100 hours, levels in
/// hundredths.
fn rounded(mut answer: Value) -> Value {
    const HUNDRED_HOURS_MS: f64 = 360_000_000.0;
    for duration in ["delay_ms", "eta_ms", "retry_after_ms", "next_free_ms", "pays_in_ms"] {
        if let Some(ms) = answer.get_mut(duration) {
            *ms = json!((ms.as_f64().unwrap() / HUNDRED_HOURS_MS).ceil().to_string() + "00 h");
        }
    }
    if let Some(stamp) = answer.as_object_mut().and_then(|answer| answer.remove("at_ms")) {
        assert!(stamp.is_u64(), "{stamp}");
    }
    if let Some(level) = answer.get_mut("level") {
        *level = json!((level.as_f64().unwrap() * 100.0).round() / 100.0);
    }
    answer
}

/// A refusal without its message, which is returned beside it; the headers are checked.
fn refusal(message: &Message) -> (Value, String) {
    let mut refusal = body(message);
    let text = refusal.as_object_mut().unwrap().remove("message").unwrap().as_str().unwrap().to_owned();
    let headers = message.headers.as_ref().expect("a refusal has headers");
    assert_eq!(headers.get("Nats-Service-Error").unwrap().as_str(), text);
    let number = match refusal["code"].as_str().unwrap() {
        "not_in_time" => "429",
        "never_fits" => "422",
        "queue_full" | "unavailable" => "503",
        "unknown_permit" => "404",
        "already_settled" => "409",
        "unknown_class" | "unknown_unit" | "invalid_request" => "400",
        other => panic!("the protocol has no code {other} here"),
    };
    assert_eq!(headers.get("Nats-Service-Error-Code").unwrap().as_str(), number);
    (rounded(refusal), text)
}

// ---- rampmeter.permit.<resource>

/// The limits in an answer, with the time until they are full in whole 100 hours.
fn left(answer: &Value) -> Vec<String> {
    let limits = answer["left"].as_array().into_iter().flatten();
    let lines = limits.map(|left| {
        let hours = (left["reset_ms"].as_f64().unwrap() / 360_000_000.0).ceil();
        format!(
            "{} of {} {}, all in {hours}00 h",
            left["remaining"].as_f64().unwrap().round(),
            left["limit"],
            left["unit"]
        )
    });
    lines.map(|line| line.replace('"', "")).collect()
}

#[tokio::test]
async fn a_permit_says_what_is_left_on_request() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    let answer = worker.ask(json!({"left": true, "id": "a", "cost": {"processing-units": 25}})).await;
    assert_eq!(left(&answer), ["3 of few requests, all in 100 h", "75 of units processing-units, all in 100 h"]);
    assert_eq!(worker.ask(json!({})).await.get("left"), None);
    let answers = worker.ask(json!([{"left": true, "mode": "wait"}])).await;
    assert_eq!(left(&answers), ["1 of few requests, all in 300 h"], "it waits for nothing, and is answered alone");
}

#[tokio::test]
async fn a_permit_that_is_to_be_had_now() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    let granted = worker.request("permit", r#"{"id": "a"}"#).await;
    let text = std::str::from_utf8(&granted.payload).unwrap();
    let (said, stamp) = text.split_once(r#","at_ms":"#).expect("a stamp");
    assert_eq!(said, r#"{"status":"granted","id":"a","delay_ms":0.0,"valid_ms":5000.0"#);
    assert!(stamp.strip_suffix(r#","epoch":1}"#).is_some_and(|ms| ms.parse::<u64>().is_ok()), "{stamp}");
    assert_eq!(granted.headers, None);
}

#[tokio::test]
async fn a_reservation_is_a_promise_for_later() {
    let (_nats, _running, worker) = exhausted().await;
    for (id, delay) in [("e", "100 h"), ("f", "200 h"), ("g", "300 h")] {
        let granted = rounded(worker.ask(json!({"id": id})).await);
        let expected = json!({"status": "granted", "id": id, "delay_ms": delay, "valid_ms": 5000.0, "limited_by": "few", "charged": [["few", null]], "epoch": 1});
        assert_eq!(granted, expected);
    }
    assert_eq!(rounded(json!({"level": worker.limit("few").await.level})), json!({"level": -3.0}));
}

#[tokio::test]
async fn a_waiting_request_gets_queue_updates_on_request() {
    let (_nats, _running, worker) = exhausted().await;
    let mut first = worker.send("permit", r#"{"id": "f", "mode": "wait", "progress": true}"#).await;
    let mut second = worker.send("permit", r#"{"id": "g", "mode": "wait", "progress": true}"#).await;
    let queued = |id, position, eta| json!({"status": "queued", "id": id, "position": position, "eta_ms": eta, "limited_by": "few", "epoch": 1});
    assert_eq!(rounded(first.body().await), queued("f", 0, "100 h"));
    assert_eq!(rounded(second.body().await), queued("g", 1, "200 h"));
    let again = tokio::time::timeout(Duration::from_secs(5), second.body());
    assert_eq!(rounded(again.await.expect("again after 5 s at the latest")), queued("g", 1, "200 h"));
}

#[tokio::test]
async fn a_waiting_request_is_cancelled_by_giving_it_back() {
    let (_nats, _running, worker) = exhausted().await;
    let mut waiting = worker.send("permit", r#"{"id": "f", "mode": "wait"}"#).await;
    let used = worker.request("settle", r#"{"id": "f", "used": true}"#).await;
    assert_eq!(refusal(&used).0["code"], "invalid_request", "a waiting request has used nothing");
    let cancelled = worker.settle(json!({"id": "f", "used": false})).await;
    assert_eq!(cancelled, json!({"status": "settled", "id": "f"}));
    let (turned_away, _) = refusal(&waiting.next().await);
    assert_eq!(turned_away, json!({"status": "refused", "id": "f", "code": "unknown_permit", "epoch": 1}));
    assert_eq!(worker.status().await.counters.returned, 1);
}

#[tokio::test]
async fn a_refusal_is_an_answer() {
    let (_nats, _running, worker) = exhausted().await;
    let not_in_time = json!({"code": "not_in_time", "limited_by": "few", "retry_after_ms": "100 h"});
    #[rustfmt::skip]
    let table = [
        // request, the refusal's fields beside status, id and epoch, message
        (json!({"mode": "allow"}),                       not_in_time.clone(),                                 "`few`: the earliest start is in"),
        (json!({"max_wait_ms": 30_000}),                 not_in_time.clone(),                                 "`few`: the earliest start is in"),
        (json!({"mode": "wait", "max_wait_ms": 0}),      not_in_time,                                         "`few`: the earliest start is in"),
        (json!({"cost": {"requests": 4.000_001}}),       json!({"code": "never_fits", "limited_by": "few"}),  "`few`: the cost of 4.000001 exceeds the limit's capacity of 4"),
    ];
    for (mut request, mut expected, message) in table {
        let before = worker.status().await.limits;
        request["id"] = json!("r");
        expected["status"] = json!("refused");
        expected["id"] = json!("r");
        expected["epoch"] = json!(1);
        let (refusal, text) = refusal(&worker.request("permit", request.to_string()).await);
        assert_eq!(refusal, expected, "{request}");
        assert!(text.starts_with(message), "{text}");
        let after = worker.status().await.limits;
        assert!(after.iter().zip(before).all(|(now, then)| now.level >= then.level), "{request} is charged nothing");
    }
}

#[tokio::test]
async fn a_request_that_arrives_after_its_deadline_is_dropped() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    let long_ago = json!({"id": "a", "sent_unix_ms": 1_700_000_000_000_u64, "max_wait_ms": 1000});
    let (refusal, text) = refusal(&worker.request("permit", long_ago.to_string()).await);
    assert_eq!(refusal["code"], "not_in_time");
    assert!(text.starts_with("`sent_unix_ms`:"), "{text}");
    assert_eq!(worker.status().await.counters.granted, 0);
}

#[tokio::test]
async fn the_id_of_a_settled_call_is_refused() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    worker.ask(json!({"id": "a"})).await;
    worker.settle(json!({"id": "a"})).await;
    for mode in ["reserve", "wait", "allow"] {
        let (refused, text) = refusal(&worker.request("permit", json!({"id": "a", "mode": mode}).to_string()).await);
        assert_eq!(refused, json!({"status": "refused", "id": "a", "code": "already_settled", "epoch": 1}), "{mode}");
        assert!(text.contains("ask under a new id"), "{text}");
    }
    assert_eq!(rounded(json!({"level": worker.limit("few").await.level})), json!({"level": 3.0}), "charged once");
}

// ---- arrays

#[tokio::test]
async fn an_array_is_answered_by_an_array_in_its_order() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    let asked = json!([
        {"id": "a"},
        {"id": "b", "cost": {"tokens": 1}},
        {"id": "c", "nonsense": 1},
        5,
        {"id": "a"},
        {"id": "d", "cost": {"requests": 3}},
        {"id": "e", "mode": "allow"},
    ]);
    let answer = worker.request("permit", asked.to_string()).await;
    assert_eq!(answer.headers, None, "an array has no header, its elements have codes");
    let answers = body(&answer);
    let fields = |answer: &Value| (answer["id"].clone(), answer["status"].clone(), answer["code"].clone());
    let expected = [
        (json!("a"), json!("granted"), Value::Null),
        (json!("b"), json!("refused"), json!("unknown_unit")),
        (json!("c"), json!("refused"), json!("invalid_request")),
        (Value::Null, json!("refused"), json!("invalid_request")),
        (json!("a"), json!("granted"), Value::Null),
        (json!("d"), json!("granted"), Value::Null),
        (json!("e"), json!("refused"), json!("not_in_time")),
    ];
    assert_eq!(answers.as_array().unwrap().iter().map(fields).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn elements_that_wait_are_answered_alone() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    let mixed =
        json!([{"id": "a", "mode": "wait"}, {"id": "b"}, {"id": "c", "mode": "wait"}, {"id": "d", "mode": "allow"}]);
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    let mut answers = worker.send("permit", mixed.to_string()).await;
    for _ in 0..3 {
        let answer = answers.body().await;
        match answer.as_array() {
            Some(elements) => together.extend(elements.clone()),
            None => alone.push(answer),
        }
    }
    let ids = |answers: &[Value]| answers.iter().map(|answer| answer["id"].clone()).collect::<Vec<_>>();
    assert_eq!((ids(&alone), ids(&together)), (vec![json!("a"), json!("c")], vec![json!("b"), json!("d")]));
    nothing_more(&worker, &mut answers).await;
}

/// Checks that earlier requests have no answers but those that were taken.
async fn nothing_more(worker: &Worker, answers: &mut Answers) {
    worker.send_also(answers, "permit", r#"{"id": "last", "class": "none"}"#).await;
    assert_eq!(answers.body().await["id"], "last");
}

// ---- rampmeter.settle.<resource>

#[tokio::test]
async fn a_settle_is_a_request_or_a_message() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    worker.ask(json!([{"id": "a"}, {"id": "b"}])).await;
    let settled = worker.request("settle", r#"{"id": "a", "elapsed_ms": 812.5}"#).await;
    assert_eq!(settled.payload, r#"{"status":"settled","id":"a"}"#);
    let response = json!({"status": 429, "headers": {"retry-after": "1500", "x-ratelimit-remaining": "0"}});
    worker.tell("settle", json!({"id": "b", "response": response}).to_string()).await;
    let counters = until("both are settled", async || {
        let counters = worker.status().await.counters;
        (counters.settled == 2).then_some(counters)
    })
    .await;
    assert_eq!(counters.upstream_429, 1);
}

#[tokio::test]
async fn settles_travel_in_arrays_too() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    worker.ask(json!([{"id": "a"}, {"id": "b"}, {"id": "c"}])).await;
    let settles = json!([{"id": "a"}, {"id": "nobody"}, {"id": "b", "use": true}, {"id": "b", "used": false}]);
    let answers = worker.settle(settles).await;
    let fields = |answer: &Value| (answer["id"].clone(), answer["status"].clone(), answer["code"].clone());
    let expected = [
        (json!("a"), json!("settled"), Value::Null),
        (json!("nobody"), json!("refused"), json!("unknown_permit")),
        (json!("b"), json!("refused"), json!("invalid_request")),
        (json!("b"), json!("settled"), Value::Null),
    ];
    assert_eq!(answers.as_array().unwrap().iter().map(fields).collect::<Vec<_>>(), expected);
    assert_eq!(worker.settle(json!([])).await, json!([]));
    worker.tell("settle", r#"[{"id": "c"}, {"id": "nobody"}]"#).await;
    until("c is settled", async || (worker.status().await.counters.settled == 2).then_some(())).await;
}

// ---- rampmeter.status.<resource>, rampmeter.resources

#[tokio::test]
async fn the_status_tells_levels_queues_and_counters() {
    let (_nats, _running, worker) = exhausted().await;
    worker.ask(json!({"id": "e", "cost": {"processing-units": 1}})).await;
    let waiting = worker.send("permit", r#"{"mode": "wait", "class": "bulk", "age_ms": 3600000}"#).await;
    let mut status = body(&worker.request("status", "").await);
    for limit in status["limits"].as_array_mut().unwrap() {
        *limit = rounded(limit.take());
    }
    let oldest = status["classes"][1]["oldest_ms"].take().as_f64().unwrap();
    assert!((0.0..60_000.0).contains(&oldest), "a stated age does not count: {oldest}");
    let first = &mut status["classes"][1]["first"];
    assert_eq!(
        (&first["limited_by"], &first["reason"], &first["position"]),
        (&json!("few"), &json!("stock"), &json!(0))
    );
    first.take();
    assert_eq!(status.as_object_mut().unwrap().remove("standbys"), Some(json!(0)));
    assert!(status.as_object_mut().unwrap().remove("since").is_some_and(|since| since.is_string()));
    let leader = status["leader"].take();
    assert!(leader.as_str().unwrap().starts_with("scheduler-"), "{leader}");
    let limit = |name, unit, capacity, level, next_free| {
        json!({
            "name": name, "unit": unit, "algorithm": "token-bucket", "capacity": capacity, "period_ms": 1.44e9,
            "margin": 0.0, "level": level, "next_free_ms": next_free, "keys": 1, "frozen_ms": 0.0
        })
    };
    let golden = json!({
        "resource": "hub", "epoch": 1, "leader": null,
        "limits": [
            limit("few", "requests", 4.0, -1.0, "100 h"),
            limit("units", "processing-units", 100.0, 99.0, "000 h"),
        ],
        "classes": [
            {"name": "urgent", "queued": 0, "oldest_ms": 0.0},
            {"name": "bulk", "queued": 1, "oldest_ms": null, "first": null},
        ],
        "counters": {"granted": 2, "refused": 0, "settled": 0, "upstream_429": 0, "returned": 0},
        "limited_by": "few", "reason": "stock",
        "held_by": {"level": -1.0, "next_free_ms": "100 h", "pays_in_ms": "200 h"},
    });
    status["held_by"] = rounded(status["held_by"].take());
    assert_eq!(status, golden);
    drop(waiting);
}

#[tokio::test]
async fn resources_are_listed_with_their_limits() {
    let two = format!("{TWO_UNITS}{}", TWO_UNITS.replace("\"hub\"", "\"other\""));
    let (_nats, _running, worker) = Worker::beside_scheduler(&two).await;
    let answer = within("an answer", worker.client().request("rampmeter.resources", "".into())).await.unwrap();
    let limit = |name, unit, capacity| json!({"name": name, "unit": unit, "algorithm": "token-bucket", "capacity": capacity, "period_ms": 1.44e9});
    let resource = |name| {
        json!({
            "name": name,
            "limits": [limit("few", "requests", 4.0), limit("units", "processing-units", 100.0)],
            "classes": ["urgent", "bulk"], "default_class": "urgent",
        })
    };
    assert_eq!(body(&answer), json!({"resources": [resource("hub"), resource("other")]}));
}

#[tokio::test]
async fn a_resource_without_a_scheduler_has_no_responders() {
    let (nats, _running) = scheduler::alone(TWO_UNITS).await;
    let stranger = Worker::connect(&nats, "elsewhere").await;
    for what in ["permit", "settle", "status"] {
        assert_eq!(stranger.request(what, "{}").await.status, Some(StatusCode::NO_RESPONDERS), "{what}");
    }
}

#[tokio::test]
async fn other_subjects_of_a_resource_are_refused() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    for wrong in ["premit", "permit-"] {
        let (refusal, text) = refusal(&worker.request(wrong, "{}").await);
        assert_eq!(refusal["code"], "invalid_request");
        assert_eq!(text, format!("`rampmeter.{wrong}.hub` is not a subject of the protocol"));
    }
    let (refusal, _) = refusal(&worker.request("permit-urgnet", "{}").await);
    assert_eq!(refusal["code"], "unknown_class");
}

#[tokio::test]
async fn the_prefix_is_configurable() {
    let nats = nats::start().await;
    let text = scheduler::configuration(nats.url(), TWO_UNITS).replace("[nats]", "[nats]\nprefix = \"fleet\"");
    let running = scheduler::start_by(&text).await;
    let client = nats::connect(&nats).await;
    let granted = within("an answer", client.request("fleet.permit.hub", "".into())).await.unwrap();
    assert_eq!(body(&granted)["status"], "granted");
    let worker = Worker::connect(&nats, "hub").await;
    assert_eq!(worker.request("permit", "").await.status, Some(StatusCode::NO_RESPONDERS));
    scheduler::stop(running).await;
}

// ---- rampmeter.event.<resource>

#[tokio::test]
async fn a_new_leader_is_announced_and_can_be_asked_at_once() {
    let nats = nats::start().await;
    let worker = Worker::connect(&nats, "hub").await;
    let mut events = worker.client().subscribe(worker.subject("event")).await.unwrap();
    for epoch in 1..=3 {
        let running = scheduler::begin(&nats, TWO_UNITS).await;
        let mut event = body(&within("an event", events.next()).await.unwrap());
        if epoch == 1 {
            assert_eq!(event["epoch"], 0, "on a new store a scheduler listens first, and names no epoch");
            event = body(&within("an event", events.next()).await.unwrap());
        }
        let leader = worker.status().await.leader;
        assert_eq!(event, json!({"event": "leader", "epoch": epoch, "leader": leader}));
        scheduler::stop(running).await;
    }
}
