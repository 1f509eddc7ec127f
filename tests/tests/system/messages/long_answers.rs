//! However much a sender has quoted, each message has a typed answer that fits into a message, and the log
//! stays short.

use crate::prelude::*;
use rampmeter_protocol::text::MAX_BRIEF;

/// Elements of the longest array.
const ELEMENTS: usize = 1024;
/// Bytes of the longest quoted texts; the server takes a message of 1 MiB.
const LONG: usize = 700_000;
/// How often each text is sent.
const TIMES: usize = 20;

/// Names as long as they may be, which every refusal for a class lists, and every grant for `left`.
fn hub() -> String {
    let name = |letter: &str, number: usize| format!("{}{number:02}", letter.repeat(62));
    let classes: Vec<String> = (0..16).map(|number| format!("{{ name = {:?} }}", name("c", number))).collect();
    let limit = |number| format!("{{ name = {:?}, capacity = 1000000, period = \"1h\" }}", name("l", number));
    let limits: Vec<String> = (0..16).map(limit).collect();
    let (classes, limits) = (classes.join(", "), limits.join(", "));
    format!(
        "[[resource]]\nname = \"hub\"\nstart = \"full\"\npricing = \"sentinel-hub\"\nclasses = [{classes}]\nlimit = [{limits}]"
    )
}

fn asking(price: Value) -> Value {
    let mut all = json!({"kind": "sentinel-hub", "api": "process", "body": {}});
    all.as_object_mut().unwrap().extend(price.as_object().unwrap().clone());
    json!({"mode": "allow", "price": all})
}

/// Requests that are refused with a quote of what they say, or would be without a bound.
fn quoting() -> Vec<Value> {
    let long = "\"\\\u{1}ü".repeat(LONG / 10);
    let body = |script: &str| {
        json!({"input": {"bounds": {"bbox": [0, 0, 1, 1]}, "data": [{"type": "sentinel-2-l2a"}]},
            "output": {"width": 512, "height": 512}, "evalscript": script})
    };
    vec![
        asking(json!({"kind": long})),
        asking(json!({"api": long})),
        asking(json!({"given": {"deployment": long}})),
        asking(json!({"given": {&*long: 1}})),
        asking(json!({"body": body(&format!("throw '{}'", "x".repeat(LONG)))})),
        asking(json!({"body": body(&format!("function setup() {{ return {} }}", "y".repeat(LONG)))})),
        json!({"mode": long}),
        json!({&*long: 1}),
        json!({"cost": {&*long: 1}}),
        json!({"labels": {&*long: 1}}),
        json!({"id": long}),
    ]
}

#[tokio::test]
async fn a_quote_of_a_sender_is_cut_and_its_log_lines_are_few() {
    let (_nats, mut process, worker) = Worker::beside_process(RAMPMETER, &hub()).await;
    for asking in quoting() {
        for what in ["permit", "settle"] {
            for _ in 0..TIMES {
                let answer = worker.request(what, asking.to_string()).await;
                let header = answer.headers.clone().unwrap();
                let text = body(&answer)["message"].as_str().unwrap().to_owned();
                assert_eq!(body(&answer)["code"], "invalid_request", "{text}");
                assert!(text.len() <= MAX_BRIEF && !text.contains(char::is_control), "{text}");
                assert_eq!(header.get("Nats-Service-Error").unwrap().as_str(), text);
            }
        }
    }
    check_log(&mut process).await;
}

#[tokio::test]
async fn every_element_of_a_large_array_has_a_typed_answer() {
    let (_nats, mut process, worker) = Worker::beside_process(RAMPMETER, &hub()).await;
    let class = format!("{}0", "\"".repeat(63));
    let all = |element: Value| Value::Array(vec![element; ELEMENTS]);
    // Which codes the answers may have; the last grants tell more of what is left than fits.
    #[rustfmt::skip]
    let table: [(Value, Option<&str>); 5] = [
        (all(json!({"class": class})),                          Some("unknown_class")),
        (all(json!({"cost": {"\u{1}".repeat(64): 1}})),         Some("unknown_unit")),
        (all(json!({"mode": "\"".repeat(400)})),                Some("invalid_request")),
        (all(json!({"mode": "allow"})),                         None),
        (all(json!({"mode": "allow", "left": true})),           Some("invalid_request")),
    ];
    for (asking, code) in table {
        let answers = worker.ask(asking).await;
        let answers = answers.as_array().unwrap();
        assert_eq!(answers.len(), ELEMENTS);
        let expected = code.map_or(json!("granted"), |_| json!("refused"));
        for answer in answers {
            assert_eq!((&answer["status"], answer["code"].as_str()), (&expected, code), "{answer}");
        }
        let ids = answers.iter().filter_map(|answer| answer["id"].as_str()).collect::<BTreeSet<_>>();
        assert!(expected == "refused" || ids.len() == ELEMENTS, "{ids:?}");
    }
    assert_eq!(worker.ask(json!({})).await["status"], "granted");
    check_log(&mut process).await;
}

/// Nothing of what was sent has more than one line a kind, and no line is long.
async fn check_log(process: &mut Process) {
    process.until_ready().await;
    let log = process.log();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("\"WARN\"")).collect();
    assert!(warnings.len() <= 3 && log.lines().all(|line| line.len() < 2000), "{warnings:?}");
}
