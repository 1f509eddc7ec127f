//! Every bound of a message: the largest value is read, and a larger one is refused.

use crate::SCHEMA;
use crate::validator::Schema;
use rampmeter_protocol::answer::Refused;
use rampmeter_protocol::bounds::{
    MAX_AMOUNT, MAX_BATCH, MAX_EPOCH, MAX_HEADER_VALUE, MAX_HEADERS, MAX_ID, MAX_LABEL_KEY, MAX_LABEL_VALUE,
    MAX_LABELS, MAX_MILLIS, MAX_NAME, MAX_UNITS,
};
use rampmeter_protocol::code::Code;
use rampmeter_protocol::incoming::Incoming;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::text::MAX_BRIEF;
use serde_json::{Value, json};

/// `count` pairs with this value.
fn pairs(count: usize, value: &Value) -> Value {
    (0..count).map(|number| (format!("u{number}"), value.clone())).collect()
}

/// One pair whose key has `length` characters.
fn long_key(length: usize, value: &Value) -> Value {
    [("k".repeat(length), value.clone())].into_iter().collect()
}

/// Reaches `bounds::MAX_NAME`, among others.
#[test]
fn requests_are_bounded() {
    let schema = Schema::new(SCHEMA);
    let table = [0, 1].map(|more: usize| {
        let text = |most: usize| "x".repeat(most + more);
        [
            json!({"id": text(MAX_ID)}),
            json!({"cost": long_key(MAX_NAME + more, &json!(1))}),
            json!({"cost": pairs(MAX_UNITS + more, &json!(1))}),
            json!({"cost": {"requests": MAX_AMOUNT + more as u64}}),
            json!({"labels": pairs(MAX_LABELS + more, &json!("a"))}),
            json!({"labels": long_key(MAX_LABEL_KEY + more, &json!("a"))}),
            json!({"labels": {"client": text(MAX_LABEL_VALUE)}}),
            json!({"max_wait_ms": MAX_MILLIS + more as f64}),
            json!({"epoch": MAX_EPOCH + more as u64}),
        ]
    });
    for (requests, is_right) in table.iter().zip([true, false]) {
        for request in requests {
            let text = request.to_string();
            let read = Incoming::<PermitRequest<'_>>::parse(text.as_bytes());
            assert_eq!(matches!(read, Incoming::One(Ok(_))), is_right, "the type: {request}");
            assert_eq!(schema.fault("permit_request", request).is_none(), is_right, "the schema: {request}");
        }
    }
}

/// Clients keep these bounds; a scheduler leaves out what is beyond, because an objection of the
/// upstream must not be lost. Reaches `bounds::MAX_HEADERS`, too.
#[test]
fn settles_are_bounded() {
    let schema = Schema::new(SCHEMA);
    for (more, is_right) in [(0, true), (1, false)] {
        let table =
            [pairs(MAX_HEADERS + more, &json!("a")), json!({"retry-after": "1".repeat(MAX_HEADER_VALUE + more)})];
        for headers in table {
            let settle = json!({"id": "a", "response": {"status": 429, "headers": &headers}});
            let text = settle.to_string();
            let read: Settle<'_> = serde_json::from_str(&text).unwrap();
            let kept = read.response().unwrap().headers.iter().filter(|(_, value)| value.len() <= MAX_HEADER_VALUE);
            assert_eq!(kept.count(), headers.as_object().unwrap().len() - usize::from(!is_right), "{settle}");
            assert_eq!(schema.fault("settle", &settle).is_none(), is_right, "the schema: {settle}");
        }
    }
}

/// Without a bound on the way, each of so many names would be compared with all before it, for hours.
#[test]
fn headers_beyond_the_bound_cost_no_time() {
    let settle = json!({"id": "a", "response": {"status": 429, "headers": pairs(400_000, &json!("a"))}}).to_string();
    let read: Settle<'_> = serde_json::from_str(&settle).unwrap();
    assert_eq!(read.response().unwrap().headers.iter().count(), MAX_HEADERS);
}

/// The bound holds for arrays with wrong elements, too.
#[test]
fn an_array_has_at_most_1024_elements() {
    for element in ["{}", "{\"id\": 1}"] {
        let array = |count: usize| format!("[{}]", vec![element; count].join(","));
        let read = |count| match Incoming::<PermitRequest<'_>>::parse(array(count).as_bytes()) {
            Incoming::Many(all) => Ok(all.len()),
            Incoming::One(refused) => Err(refused.unwrap_err().reason),
        };
        assert_eq!(read(MAX_BATCH), Ok(MAX_BATCH));
        assert_eq!(read(MAX_BATCH + 1), Err(format!("an array has at most {MAX_BATCH} elements")));
    }
}

/// Reaches `incoming::MAX_FIELD` and `text::MAX_BRIEF`.
#[test]
fn a_refusal_quotes_a_few_bytes_of_a_sender() {
    let request = json!({"ü".repeat(1000): 1}).to_string();
    let Incoming::One(Err(refused)) = Incoming::<PermitRequest<'_>>::parse(request.as_bytes()) else {
        panic!("an unknown field is wrong");
    };
    assert!(refused.field.as_deref().is_none_or(|field| field.len() <= 150));
    assert!((299..=MAX_BRIEF).contains(&refused.reason.len()), "{}", refused.reason);
    let Refused { message, .. } = Refused::new(Code::InvalidRequest, refused.to_string());
    assert!(message.len() <= MAX_BRIEF && message.ends_with('…'), "{message}");
}
