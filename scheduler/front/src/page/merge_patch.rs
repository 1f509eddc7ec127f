//! The difference of two JSON values as a merge patch (RFC 7396).

use serde_json::{Map, Value};

/// Returns the patch from `before` to `after`, neither of which may contain a null, or `None` if they are equal.
pub(super) fn difference(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => in_objects(before, after),
        (before, after) => (before != after).then(|| after.clone()),
    }
}

fn in_objects(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<Value> {
    let gone = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter_map(|(key, value)| {
        let change = before.get(key).map_or_else(|| Some(value.clone()), |known| difference(known, value));
        change.map(|change| (key.clone(), change))
    });
    let patch: Map<String, Value> = gone.chain(changed).collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_has_changed_is_told() {
        #[rustfmt::skip]
        let table = [
            (json!({"a": 1}),                   json!({"a": 1}),                None),
            (json!({"a": 1}),                   json!({"a": 2}),                Some(json!({"a": 2}))),
            (json!({"a": 1}),                   json!({"a": 1, "b": {"c": 2}}), Some(json!({"b": {"c": 2}}))),
            (json!({"a": 1, "b": 2}),           json!({"b": 2}),                Some(json!({"a": null}))),
            (json!({"a": {"b": 1, "c": 2}}),    json!({"a": {"b": 3, "c": 2}}), Some(json!({"a": {"b": 3}}))),
            (json!({"a": [1, 2]}),              json!({"a": [1, 3]}),           Some(json!({"a": [1, 3]}))),
        ];
        for (before, after, expected) in table {
            assert_eq!(difference(&before, &after), expected, "{before} {after}");
        }
    }
}
