//! Requests that give a body in place of a cost.

use crate::prelude::*;

const HUB: &str = r#"
[[resource]]
name = "hub"
start = "full"
pricing = "sentinel-hub"
limit = [
    { name = "requests", capacity = 100000, period = "1h" },
    { name = "units", unit = "processing-units", capacity = 1000, period = "400h", margin = 0 },
]
"#;

fn process(width: u32, script: &str) -> Value {
    json!({
        "input": { "data": [{ "type": "sentinel-2-l2a" }] },
        "output": { "width": width, "height": 512, "responses": [{ "format": { "type": "image/tiff" } }] },
        "evalscript": script,
    })
}

const TWO_BANDS: &str =
    "function setup() { return { input: ['B04', 'B08'], output: { bands: 1, sampleType: 'FLOAT32' } } }";

fn asking(body: &Value) -> Value {
    json!({ "mode": "allow", "price": { "kind": "sentinel-hub", "api": "process", "body": body } })
}

#[tokio::test]
async fn a_body_costs_what_it_costs_over_nats_and_over_http() {
    let (_nats, front, worker) = Worker::beside_front("", HUB).await;
    let expected = json!({ "requests": 1, "processing-units": 1.333334 });
    let answer = worker.ask(asking(&process(512, TWO_BANDS))).await;
    assert_eq!((&answer["status"], &answer["cost"]), (&json!("granted"), &expected), "{answer}");
    let answer = front.post("/v1/permit/hub", asking(&process(512, TWO_BANDS)).to_string()).await;
    assert_eq!((answer.status, &answer.body["cost"]), (200, &expected), "{answer:?}");
    let many = json!([asking(&process(1024, TWO_BANDS)), { "mode": "allow" }, asking(&process(0, TWO_BANDS))]);
    let answers = worker.ask(many).await;
    assert_eq!(answers[0]["cost"]["processing-units"], 2.666667, "{answers}");
    assert_eq!((&answers[1]["status"], &answers[1]["cost"]), (&json!("granted"), &Value::Null), "{answers}");
    assert_eq!(answers[2]["code"], "invalid_request", "{answers}");
    let waiting = json!({ "mode": "wait", "price": asking(&process(512, TWO_BANDS))["price"] });
    assert_eq!(worker.ask(waiting).await["cost"], expected);
    let left: f64 = worker.status().await.limits.iter().find(|limit| *limit.name == *"units").unwrap().level;
    assert!((left - (1000.0 - 3.0 * 1.333334 - 2.666667)).abs() < 0.01, "{left}");
}

#[tokio::test]
async fn a_request_without_a_price_is_refused_and_charged_nothing() {
    let (_nats, front, worker) = Worker::beside_front("", HUB).await;
    let orbit = "function setup() { return { input: ['B04'], mosaicking: 'ORBIT', output: { bands: 1 } } }";
    let price = |change: Value| {
        let mut asking = asking(&process(512, orbit));
        for (key, value) in change.as_object().unwrap() {
            asking["price"][key] = value.clone();
        }
        asking
    };
    let mut both = price(json!({ "given": { "samples": 2 } }));
    both["cost"] = json!({ "requests": 1 });
    let many: Vec<Value> = (0..17).map(|_| price(json!({ "given": { "samples": 2 } }))).collect();
    #[rustfmt::skip]
    let table = [
        (price(json!({})),                                                      "pass the samples per pixel (`--samples`"),
        (price(json!({ "given": { "samples": 0 } })),                           "0 is out of bounds"),
        (price(json!({ "given": { "sample": 2 } })),                            "unknown field `sample`"),
        (price(json!({ "kind": "openai" })),                                    "this resource prices \"sentinel-hub\", not `openai`"),
        (price(json!({ "api": "tiles" })),                                      "`tiles` is no API"),
        (price(json!({ "body": 5 })),                                           "expected an object"),
        (price(json!({ "body": process(512, "function setup() { while (1) {} }") })), "`while` is no part of a literal"),
        (both,                                                                  "give a `cost` or a `price`, not both"),
    ];
    for (asking, expected) in table {
        let answer = worker.ask(asking.clone()).await;
        assert_eq!(answer["code"], "invalid_request", "{expected}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(expected), "{expected}: {answer}");
        let answer = front.post("/v1/permit/hub", asking.to_string()).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("invalid_request")), "{expected}: {answer:?}");
    }
    let answers = worker.ask(Value::Array(many)).await;
    let refused = answers.as_array().unwrap().iter().filter(|answer| answer["code"] == "invalid_request").count();
    assert_eq!(refused, 1, "{answers}");
    let answer = worker.ask(price(json!({ "given": { "samples": 3 } }))).await;
    assert_eq!(answer["cost"]["processing-units"], 1, "{answer}");
}

/// A resource that does not say so prices nothing.
#[tokio::test]
async fn pricing_is_off_by_default() {
    let plain = HUB.replace("pricing = \"sentinel-hub\"\n", "");
    let (_nats, _running, worker) = Worker::beside_scheduler(&plain).await;
    let answer = worker.ask(asking(&process(512, TWO_BANDS))).await;
    assert_eq!(answer["code"], "invalid_request", "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("set `pricing`"), "{answer}");
}

/// Bodies that take long to price delay no other request.
#[tokio::test]
async fn others_do_not_wait_for_a_price() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let (heavy, light) = (Worker::connect(&nats, "hub").await, Worker::connect(&nats, "hub").await);
    let long = asking(&process(512, &format!("function setup() {{ while (1) {{}} }}{}", ";".repeat(60_000))));
    let flood = Value::Array(vec![long; 16]).to_string();
    let mut answers = heavy.send("permit", flood).await;
    heavy.client().flush().await.unwrap();
    assert_eq!(light.ask(json!({ "mode": "allow" })).await["status"], "granted");
    assert!(answers.next().now_or_never().is_none(), "the permit came behind the prices");
    let refused = answers.body().await;
    assert_eq!(refused[15]["code"], "invalid_request", "{refused}");
}

#[tokio::test]
async fn a_body_beyond_the_room_comes_back_in_a_second() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let worker = Worker::connect(&nats, "hub").await;
    let script = format!("function setup() {{ return {{ input: [{}", "[0],".repeat(200_000));
    let long = asking(&process(512, &script)).to_string();
    let mut answers = join_all((0..40).map(|_| worker.send("permit", long.clone()))).await;
    let answers = join_all(answers.iter_mut().map(|answer| answer.body())).await;
    let full: Vec<&Value> = answers.iter().filter(|answer| answer["code"] == "queue_full").collect();
    assert!(!full.is_empty() && full.iter().all(|answer| answer["retry_after_ms"] == 1000.0), "{full:?}");
}
