//! Every body has an error or an estimate of at least the minimum, and never causes a panic.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use proptest::prelude::*;
use rampmeter_sentinel_hub::{Api, Estimate, Given};
use serde_json::{Map, Value, json};

const BODIES: [&str; 6] = [
    include_str!("data/float32.json"),
    include_str!("data/sentinel1.json"),
    include_str!("data/fusion.json"),
    include_str!("data/statistical.json"),
    include_str!("data/batch.json"),
    include_str!("data/batch-v2.json"),
];

fn ask(body: impl AsRef<[u8]>) {
    for api in Api::ALL {
        if let Ok(estimate) = Estimate::of_body(api, &body, &Given::default()) {
            assert!(estimate.amount.units() >= estimate.minimum.to_f64());
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(vec!["", "P1D", "image/tiff", "sentinel-1-grd", "Polygon", "2026-01-01T00:00:00Z"])
            .prop_map(Value::from),
        Just(json!("function setup() { return { input: ['A'], output: { sampleType: 'FLOAT32' } } }")),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(vec!["type", "bbox", "id", "width", "resx"]), inner, 0..4)
                .prop_map(|map| Value::Object(
                    map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>()
                )),
        ]
    })
}

/// All places in a body.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| places(value, &format!("{at}/{key}"), found)),
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(key, value)| places(value, &format!("{at}/{key}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        ask(bytes);
    }

    #[test]
    fn real_bodies_with_anything_anywhere_are_answered(
        which in 0..BODIES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 1..4),
    ) {
        let mut body: Value = serde_json::from_str(BODIES[which]).unwrap();
        for (place, value) in changes {
            let mut all = Vec::new();
            places(&body, "", &mut all);
            *body.pointer_mut(place.get::<String>(&all)).unwrap() = value;
        }
        ask(body.to_string());
    }
}
