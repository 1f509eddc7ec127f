//! Compares the configuration of a stream or a consumer with the expected one.

use serde::Serialize;
use serde_json::{Map, Value};

/// The setting in which NATS servers keep their own notes, which is not compared.
const OF_SERVERS: &str = "metadata";

/// Describes the settings of `found` that differ from `expected`, except those in `free`.
pub(crate) fn differences(found: &impl Serialize, expected: &impl Serialize, free: &[&str]) -> Vec<String> {
    let (found, expected) = (settings(found), settings(expected));
    let mut keys: Vec<&String> = found.keys().chain(expected.keys()).collect();
    keys.sort();
    keys.dedup();
    let keys = keys.into_iter().filter(|key| *key != OF_SERVERS && !free.contains(&key.as_str()));
    keys.filter_map(|key| difference(key, value(&found, key), value(&expected, key))).collect()
}

fn settings(configuration: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(configuration) {
        Ok(Value::Object(settings)) => settings,
        Ok(_) | Err(_) => unreachable!("a configuration is a JSON object"),
    }
}

fn value<'a>(settings: &'a Map<String, Value>, key: &str) -> &'a Value {
    settings.get(key).filter(|value| !is_unset(value)).unwrap_or(&Value::Null)
}

fn difference(key: &str, found: &Value, expected: &Value) -> Option<String> {
    let shown = |value: &Value| if value.is_null() { "unset".to_owned() } else { value.to_string() };
    (found != expected).then(|| format!("`{key}` is {}, not {}", shown(found), shown(expected)))
}

/// Returns whether a value means that nothing is set. Servers replace one such value by another.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_i64().is_some_and(|number| number <= 0),
        Value::String(text) => text.is_empty() || text == "none",
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.values().all(is_unset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_servers_write_for_unset_values_is_no_difference() {
        let found = json!({"name": "a", "max_msgs": -1, "max_age": 0, "compression": "none", "consumer_limits": {}, "metadata": {"_nats.ver": "2.15.1"}});
        assert_eq!(differences(&found, &json!({"name": "a"}), &[]), [""; 0]);
    }

    #[test]
    fn each_setting_that_differs_is_told() {
        let found = json!({"name": "a", "republish": {"dest": "x"}, "num_replicas": 3, "discard": "old"});
        let expected = json!({"name": "a", "num_replicas": 1, "discard": "new", "max_bytes": 5});
        let actual = differences(&found, &expected, &["num_replicas"]);
        assert_eq!(
            actual,
            [
                r#"`discard` is "old", not "new""#,
                "`max_bytes` is unset, not 5",
                r#"`republish` is {"dest":"x"}, not unset"#,
            ]
        );
    }
}
