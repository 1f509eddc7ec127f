//! Every wrong message gets a typed answer that names the field. It is charged nothing and disturbs
//! no other request.

use crate::prelude::*;
use rampmeter_protocol::bounds::MAX_EPOCH;
use rampmeter_protocol::text::MAX_BRIEF;

/// The largest message that a nats-server takes by default.
const MAX_PAYLOAD: usize = 1 << 20;

/// The expected refusal: a code, and a part of the message.
type Refused = (&'static str, &'static str);

/// Sends each payload to `what`; all are refused as expected, and nothing changes.
async fn check(what: &str, table: Vec<(Vec<u8>, Refused)>) {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    worker.ask(json!({"id": "granted-before"})).await;
    let before = worker.status().await;
    for (payload, (code, message)) in table {
        let shown = String::from_utf8_lossy(&payload[..payload.len().min(200)]).into_owned();
        let answer = worker.request(what, payload).await;
        let headers = answer.headers.clone().unwrap_or_else(|| panic!("{shown}: {:?}", answer.payload));
        let refusal = body(&answer);
        let text = refusal["message"].as_str().unwrap();
        assert_eq!((&refusal["status"], &refusal["code"]), (&json!("refused"), &json!(code)), "{shown}: {text}");
        assert!(text.contains(message), "{shown}: {text}");
        assert!(text.len() <= MAX_BRIEF, "{shown}: {text}");
        assert!(headers.get("Nats-Service-Error-Code").is_some() && headers.get("Nats-Service-Error").is_some());
    }
    let after = worker.status().await;
    assert_eq!(after.counters.granted, 1);
    assert!(after.limits.iter().zip(&before.limits).all(|(now, then)| now.level >= then.level));
    assert_eq!(worker.settle(json!({"id": "granted-before"})).await["status"], "settled");
}

fn rows<const N: usize>(table: [(&str, &'static str); N]) -> Vec<(Vec<u8>, Refused)> {
    table.map(|(payload, message)| (payload.as_bytes().to_vec(), ("invalid_request", message))).into()
}

/// The protocol's own tests reach its bounds.
#[tokio::test]
async fn permits_with_wrong_fields() {
    #[rustfmt::skip]
    let mut table = rows([
        (r#"{"id": 5}"#,                        "`id`: invalid type: integer `5`, expected a string"),
        (r#"{"id": ""}"#,                       "`id`: an id is 1 to 64 characters of [A-Za-z0-9_.:-]"),
        (r#"{"id": "größe"}"#,                  "`id`: an id is 1 to 64 characters"),
        (r#"{"cost": 1}"#,                      "`cost`: invalid type: integer `1`, expected an object of amounts by unit"),
        (r#"{"cost": {"requests": "1"}}"#,      "`cost.requests`: invalid type: string"),
        (r#"{"cost": {"requests": NaN}}"#,      "`cost.requests`"),
        (r#"{"cost": {"requests": -1}}"#,       "`cost.requests`: an amount is a number from 0 to 1e9, not -1e0"),
        (r#"{"cost": {"requests": 1e400}}"#,    "`cost.requests`: number out of range"),
        (r#"{"cost": {"requests": 0.0000001}}"#, "`cost.requests`: an amount has at most 6 decimals"),
        (r#"{"class": 1}"#,                     "`class`: invalid type: integer"),
        (r#"{"labels": {"client": 1}}"#,        "`labels.client`: invalid type: integer"),
        (r#"{"mode": 1}"#,                      "`mode`: "),
        (r#"{"mode": "wait\r\nNats-Forged: header"}"#, "`mode`: unknown variant `wait  Nats-Forged: header`"),
        (r#"{"max_wait_ms": "30s"}"#,           "`max_wait_ms`: invalid type: string"),
        (r#"{"max_wait_ms": -1}"#,              "`max_wait_ms`: a duration is a number of milliseconds from 0"),
        (r#"{"age_ms": null}"#,                 "`age_ms`: invalid type: null"),
        (r#"{"epoch": 1.5}"#,                   "`epoch`: invalid type: floating point"),
        (r#"{"epoch": 9007199254740992}"#,      "`epoch`: an epoch is a whole number from 0 to 9007199254740991"),
        (r#"{"sent_unix_ms": -1}"#,             "`sent_unix_ms`: a wall clock is milliseconds since 1970"),
        (r#"{"progress": "yes"}"#,              "`progress`: invalid type: string"),
        (r#"{"clas": "bulk"}"#,                 "`clas`: unknown field `clas`, expected one of `id`, `cost`"),
        (r#"{"id": "a", "id": "b"}"#,           "duplicate field `id`"),
        (r#"{"cost": {"requests": 1, "re\u0071uests": 2}}"#, "`requests` is given twice"),
        (r#"{"labels": {"client": "a", "client": "a"}}"#, "`client` is given twice"),
    ]);
    let unknown = [
        (r#"{"class": "bluk"}"#, ("unknown_class", "`class`: no such class; there are `urgent`, `bulk`")),
        (r#"{"cost": {"token": 1}}"#, ("unknown_unit", "`cost.token`: no limit counts this unit")),
    ];
    table.extend(unknown.map(|(payload, refused)| (payload.as_bytes().to_vec(), refused)));
    check("permit", table).await;
}

/// Payloads that are not JSON objects, for `permit` and `settle` alike.
fn no_objects() -> Vec<(Vec<u8>, Refused)> {
    let mut table = rows([
        ("5", "a JSON object"),
        ("null", "a JSON object"),
        ("{", "EOF while parsing"),
        (r#"{"id": "a""#, "EOF while parsing"),
        (r#"{"id": "a"} {}"#, "there is something after the JSON object"),
        (r#"{"id": "a",}"#, "trailing comma"),
        ("\u{feff}{}", "not a JSON object"),
        ("[", "not a JSON array: EOF"),
        ("[{},]", "not a JSON array: trailing comma"),
        ("[{}] {}", "not a JSON array: trailing characters"),
        (r#"{"id": "\ud800"}"#, "`id`"),
        (r#"{"id": "\x"}"#, "`id`: invalid escape"),
    ]);
    let deep = |open: &str| open.repeat(MAX_PAYLOAD / open.len()).into_bytes();
    #[rustfmt::skip]
    table.extend([
        (b"\xff\xfe{\0}\0".to_vec(),                                    ("invalid_request", "not UTF-8")),
        (b"{\"id\": \"a\xff\"}".to_vec(),                               ("invalid_request", "not UTF-8")),
        (b"{\"cost\": {\"re\xc3quests\": 1}}".to_vec(),                 ("invalid_request", "not UTF-8")),
        (b"\x0c{}".to_vec(),                                            ("invalid_request", "not a JSON object")),
        (b"\0".to_vec(),                                                ("invalid_request", "not a JSON object")),
        (vec![0; MAX_PAYLOAD],                                          ("invalid_request", "not a JSON object")),
        (deep("["),                                                     ("invalid_request", "not a JSON array: EOF")),
        (deep(r#"{"cost":"#),                                           ("invalid_request", "`cost")),
        (deep(r#"{"unknown":"#),                                        ("invalid_request", "unknown field")),
        (deep("0,"),                                                    ("invalid_request", "a JSON object")),
        (format!("[{}0]", "0,".repeat(500_000)).into_bytes(),           ("invalid_request", "an array has at most 1024 elements")),
    ]);
    table
}

#[tokio::test]
async fn messages_that_are_no_objects() {
    check("permit", no_objects()).await;
    check("settle", no_objects()).await;
}

#[tokio::test]
async fn settles_with_wrong_fields() {
    #[rustfmt::skip]
    let table = [
        (json!({}),                                                             ("invalid_request", "missing field `id`")),
        (json!({"id": null}),                                                   ("invalid_request", "`id`: invalid type: null")),
        (json!({"id": "a", "used": "no"}),                                      ("invalid_request", "`used`: invalid type: string")),
        (json!({"id": "a", "response": {}}),                                    ("invalid_request", "`response`: missing field `status`")),
        (json!({"id": "a", "response": {"status": 200, "body": ""}}),           ("invalid_request", "`response.body`: unknown field `body`")),
        (json!({"id": "a", "response": {"status": 200, "headers": []}}),        ("invalid_request", "`response.headers`: invalid type: sequence")),
        (json!({"id": "a", "elapsed_ms": -1}),                                  ("invalid_request", "`elapsed_ms`: a duration is a number")),
        (json!({"id": "a", "status": 200}),                                     ("invalid_request", "`status`: unknown field `status`")),
        (json!({"id": "a"}),                                                    ("unknown_permit", "no such permit")),
        (json!({"id": "granted-before", "cost": {"tokens": 1}}),                ("unknown_unit", "`cost.tokens`")),
    ];
    let mut table: Vec<_> = table.map(|(payload, refused)| (payload.to_string().into_bytes(), refused)).into();
    table.push((Vec::new(), ("invalid_request", "missing field `id`")));
    check("settle", table).await;
}

#[tokio::test]
async fn null_in_an_optional_field_means_that_it_is_absent() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    for field in ["id", "class", "max_wait_ms", "epoch", "sent_unix_ms"] {
        assert_eq!(worker.ask(json!({field: null})).await["status"], "granted", "{field}");
    }
}

#[tokio::test]
async fn payloads_of_requests_without_arguments_are_ignored() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    for payload in [b"\xff\xff".to_vec(), b"{".to_vec(), vec![b'['; MAX_PAYLOAD]] {
        let status = worker.request("status", payload.clone()).await;
        assert_eq!(body(&status)["resource"], "hub");
        let resources = worker.client().request("rampmeter.resources", payload.clone().into()).await.unwrap();
        assert_eq!(body(&resources)["resources"][0]["name"], "hub");
        let ping = worker.client().request("$SRV.PING.rampmeter", payload.into()).await.unwrap();
        assert_eq!(body(&ping)["name"], "rampmeter");
    }
}

#[tokio::test]
async fn a_request_without_reply_subject_gets_no_permit() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    worker.tell("permit", "{}").await;
    worker.tell("permit", "[{}, {}]").await;
    worker.tell("settle", "no JSON").await;
    assert_eq!(worker.status().await.counters.granted, 0);
}

/// A leader takes over the highest epoch that a worker reports. An impossible epoch must not spoil
/// that.
#[tokio::test]
async fn an_impossible_epoch_shuts_no_client_out() {
    let (_nats, _running, worker) = Worker::beside_scheduler(TWO_UNITS).await;
    let answered = worker.ask(json!({"epoch": MAX_EPOCH})).await;
    let next = worker.ask(json!({"epoch": answered["epoch"]})).await;
    assert_eq!(next["status"], "granted", "{next}");
}
