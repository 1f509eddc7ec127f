//! The protocol over HTTP: `/v1/permit` and `/v1/settle`.

use crate::prelude::*;
/// One call in a quarter of a second.
const SLOW: &str = "[[resource]]\nname = \"slow\"\n[[resource.limit]]\nname = \"pace\"\ncapacity = 1\nperiod = \"250ms\"\nmargin = 0\n";

#[tokio::test]
async fn answers_are_those_of_nats_with_the_status_of_http() {
    let (_nats, front) = Front::alone("", FOUR).await;
    let retry_after = Some((100 * 3600).to_string());
    #[rustfmt::skip]
    let table = [
        // path, body, status, and the least that the answer has
        ("/v1/permit/hub",          r#"{"id": "a", "cost": {"requests": 3}}"#,              200,    json!({"status": "granted", "id": "a", "delay_ms": 0.0, "epoch": 1})),
        ("/v1/permit/hub",          r#"{"id": "a", "cost": {"requests": 3}}"#,              200,    json!({"status": "granted", "id": "a"})),
        ("/v1/permit/hub",          "",                                                     200,    json!({"status": "granted", "delay_ms": 0.0})),
        ("/v1/permit/hub",          r#"{"mode": "allow"}"#,                                 429,    json!({"status": "refused", "code": "not_in_time", "limited_by": "few"})),
        ("/v1/permit/hub",          r#"{"mode": "wait", "max_wait_ms": 50}"#,               429,    json!({"code": "not_in_time"})),
        ("/v1/permit/hub",          r#"{"cost": {"requests": 5}}"#,                         422,    json!({"code": "never_fits"})),
        ("/v1/permit/hub",          r#"{"id": "b", "class": "none"}"#,                      400,    json!({"code": "unknown_class", "id": "b"})),
        ("/v1/permit/hub",          r#"{"cost": {"pixels": 5}}"#,                           400,    json!({"code": "unknown_unit"})),
        ("/v1/permit/hub",          r#"{"id": "b", "clas": "bulk"}"#,                       400,    json!({"code": "invalid_request", "id": "b"})),
        ("/v1/permit/hub",          "{",                                                    400,    json!({"code": "invalid_request"})),
        ("/v1/permit/hub",          "[1",                                                   400,    json!({"code": "invalid_request"})),
        ("/v1/permit/none",         "",                                                     404,    json!({"code": "unknown_resource"})),
        ("/v1/permit/hubb",         "",                                                     404,    json!({"message": "no scheduler answers for resource `hubb`, and this one's configuration has none of that name, but `hub`; did you mean `hub`?"})),
        ("/v1/permit/h.b",          "",                                                     404,    json!({"code": "unknown_resource"})),
        ("/v1/settle/hub",          r#"{"id": "a"}"#,                                       200,    json!({"status": "settled", "id": "a"})),
        ("/v1/permit/hub",          r#"{"id": "a"}"#,                                       409,    json!({"code": "already_settled", "id": "a"})),
        ("/v1/settle/hub",          r#"{"id": "nobody"}"#,                                  404,    json!({"code": "unknown_permit"})),
        ("/v1/settle/hub",          "",                                                     400,    json!({"code": "invalid_request"})),
        ("/v1/settle/none",         r#"{"id": "a"}"#,                                       404,    json!({"code": "unknown_resource"})),
    ];
    for (path, body, status, expected) in table {
        let response = front.post(path, body).await;
        assert_eq!(response.status, status, "{path} {body}: {response:?}");
        assert_eq!(response.header("content-type"), Some("application/json"), "{path} {body}");
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&response.body[field], value, "{path} {body}: {response:?}");
        }
        let in_seconds = response.body["retry_after_ms"].as_f64().map(|millis| (millis / 1000.0).ceil().to_string());
        assert_eq!(response.header("retry-after").map(str::to_owned), in_seconds, "{path} {body}: {response:?}");
        assert!(in_seconds.is_none() || in_seconds <= retry_after, "{path} {body}: {response:?}");
    }
    assert_eq!(front.get("/v1/permit/hub", &[]).await.status, 405);
}

#[tokio::test]
async fn a_scheduler_that_leads_asks_itself_without_nats() {
    let nats = nats::start().await;
    let client = nats::connect(&nats).await;
    let mut asked = client.subscribe("rampmeter.permit.hub").await.unwrap();
    client.flush().await.unwrap();
    let front = Front::start(&nats, "", FOUR).await;
    for body in [r#"{"id": "a"}"#, r#"[{"id": "b", "mode": "wait"}, {"id": "c"}]"#] {
        assert_eq!(front.post("/v1/permit/hub", body).await.status, 200, "{body}");
    }
    let answer = Worker::connect(&nats, "hub").await.ask(json!({ "id": "over-nats" })).await;
    assert_eq!(answer["status"], "granted", "{answer}");
    let first = within("the worker's request is seen", asked.next()).await.unwrap();
    let request: Value = serde_json::from_slice(&first.payload).unwrap();
    assert_eq!(request["id"], "over-nats", "no request came over NATS before");
}

#[tokio::test]
async fn an_array_is_answered_in_one_array() {
    let (_nats, front) = Front::alone("", SLOW).await;
    let body = json!([
        {"id": "a"},
        {"id": "b", "mode": "wait", "progress": true},
        {"mode": "wait"},
        {"id": "c", "class": "none"},
        {"id": "d", "nonsense": 1},
        {"id": "e", "mode": "allow"},
    ]);
    let response = front.post("/v1/permit/slow", body.to_string()).await;
    let answers: Vec<(&Value, &Value)> =
        response.body.as_array().unwrap().iter().map(|answer| (&answer["status"], &answer["code"])).collect();
    let (granted, refused) = (&json!("granted"), &json!("refused"));
    let expected = [
        (granted, &Value::Null),
        (granted, &Value::Null),
        (granted, &Value::Null),
        (refused, &json!("unknown_class")),
        (refused, &json!("invalid_request")),
        (refused, &json!("not_in_time")),
    ];
    assert_eq!((response.status, answers.as_slice()), (200, &expected[..]), "{response:?}");
    assert_eq!(response.body[1]["id"], "b");

    let settles = front.post("/v1/settle/slow", r#"[{"id": "a"}, {"id": "nobody"}, {}]"#).await;
    let statuses: Vec<&Value> = settles.body.as_array().unwrap().iter().map(|answer| &answer["status"]).collect();
    assert_eq!((settles.status, statuses), (200, vec![&json!("settled"), refused, refused]), "{settles:?}");
    assert_eq!(front.post("/v1/permit/slow", "[]").await.body, json!([]));
}

#[tokio::test]
async fn a_wait_is_a_long_poll() {
    let (_nats, front, worker) = Worker::beside_front("", FOUR).await;
    assert_eq!(worker.ask(json!({"id": "all", "cost": {"requests": 4}})).await["status"], "granted");
    let polling = front.post("/v1/permit/hub", r#"{"id": "late", "mode": "wait"}"#);
    let giving_back = async {
        worker.until_queued(1).await;
        worker.settle(json!({"id": "all", "used": false})).await
    };
    let (polled, _) = tokio::join!(polling, giving_back);
    assert_eq!((polled.status, &polled.body["status"], &polled.body["id"]), (200, &json!("granted"), &json!("late")));
}

/// A permit that was granted while another element of its array waited goes back, too.
#[tokio::test]
async fn answers_that_no_client_takes_are_given_back() {
    let (_nats, front, worker) = Worker::beside_front("", FOUR).await;
    assert_eq!(worker.ask(json!({"id": "held"})).await["status"], "granted");
    {
        let body = r#"[{"id": "a"}, {}, {"cost": {"requests": 5}}, {"mode": "wait", "cost": {"requests": 4}}]"#;
        let polling = front.post("/v1/permit/hub", body);
        let waits = worker.until_queued(1);
        tokio::select! {
            response = polling => panic!("too little is free: {response:?}"),
            () = waits => {}
        }
    }
    worker.until_queued(0).await;
    let lost = scheduler::metrics(&front.running).await.value("rampmeter_undelivered_total", &[("resource", "hub")]);
    assert_eq!(lost, 0.0, "it is cancelled, and not found out by an update that nobody takes");
    worker.settle(json!({"id": "held", "used": false})).await;
    let all = json!({"mode": "allow", "cost": {"requests": 4}});
    until("all is free again", async || (worker.ask(all.clone()).await["status"] == "granted").then_some(())).await;
}

#[tokio::test]
async fn any_scheduler_answers_for_the_leader() {
    let (nats, leader) = scheduler::alone(FOUR).await;
    let front = Front::start(&nats, "", FOUR).await;
    let first = front.post("/v1/permit/hub", r#"{"id": "a"}"#).await;
    assert_eq!((first.status, &first.body["epoch"]), (200, &json!(1)));
    scheduler::stop(leader).await;
    let second = front.post("/v1/permit/hub", r#"{"id": "b", "mode": "allow"}"#).await;
    assert_eq!((second.status, &second.body["epoch"]), (200, &json!(2)), "a handover is not noticed");
}

#[tokio::test]
async fn a_stop_answers_every_request() {
    let (_nats, front, worker) = Worker::beside_front("", FOUR).await;
    worker.ask(json!({"cost": {"requests": 4}})).await;
    let url = format!("http://{}/v1/permit/hub", front.address());
    let polling = tokio::spawn(async move {
        let sent = http().post(url).json(&json!({"mode": "wait"})).send().await.unwrap();
        Response::read(sent).await
    });
    worker.until_queued(1).await;
    scheduler::stop(front.running).await;
    let response = polling.await.unwrap();
    assert_eq!((response.status, &response.body["code"]), (503, &json!("unavailable")), "{response:?}");
}

/// The same id is the same request.
#[tokio::test]
async fn an_id_twice_in_an_array_has_one_permit_and_two_answers() {
    let (_nats, front, worker) = Worker::beside_front("", SLOW).await;
    for (mode, granted) in [("reserve", 1), ("allow", 2), ("wait", 3)] {
        let ask = json!({"id": mode, "mode": mode});
        let response = front.post("/v1/permit/slow", json!([ask, ask]).to_string()).await;
        let ids = response.body.as_array().unwrap().iter().map(|answer| (&answer["status"], &answer["id"]));
        let expected = (&json!("granted"), &json!(mode));
        assert_eq!(ids.collect::<Vec<_>>(), [expected; 2], "{response:?}");
        assert_eq!(worker.status().await.counters.granted, granted, "{mode}");
        let_pass(Duration::from_millis(250), "the next call may start").await;
    }
}
