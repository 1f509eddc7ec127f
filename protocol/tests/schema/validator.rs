//! The part of JSON Schema that the protocol's own schema uses. The check is stricter in one point:
//! an object has no property that its schema does not name.

use regex::Regex;
use serde_json::{Map, Value};

/// A schema with its definitions.
pub(crate) struct Schema(Value);

impl Schema {
    pub(crate) fn new(text: &str) -> Self {
        Schema(serde_json::from_str(text).expect("the schema is JSON"))
    }

    /// The definition of this name.
    pub(crate) fn definition(&self, name: &str) -> &Value {
        self.0["$defs"].get(name).unwrap_or_else(|| panic!("the schema has no `{name}`"))
    }

    /// The names of all definitions.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &str> {
        self.0["$defs"].as_object().expect("definitions").keys().map(String::as_str)
    }

    /// Where `value` violates the definition `name`.
    pub(crate) fn fault(&self, name: &str, value: &Value) -> Option<String> {
        self.check(self.definition(name), value).err()
    }

    /// Whether a definition is one of the messages that the whole schema stands for.
    pub(crate) fn is_message(&self, name: &str) -> bool {
        let whole = self.0["anyOf"].as_array().expect("messages");
        whole.iter().any(|message| target(message) == Some(name))
    }

    fn check(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let rules = schema.as_object().ok_or("a schema is an object")?;
        if let Some(name) = target(schema) {
            self.check(self.definition(name), value)?;
        }
        for (rule, wanted) in rules {
            let holds = match rule.as_str() {
                "$ref" | "description" | "default" | "required" => true,
                "properties" | "additionalProperties" => self.members(rules, value)?,
                "anyOf" => wanted.as_array().ok_or("a list")?.iter().any(|one| self.check(one, value).is_ok()),
                "items" => self.elements(wanted, value)?,
                "propertyNames" => self.keys(wanted, value)?,
                _ => holds(rule, wanted, value),
            };
            if !holds {
                return Err(format!("{value} is not {rule} {wanted}"));
            }
        }
        Ok(())
    }

    fn members(&self, rules: &Map<String, Value>, value: &Value) -> Result<bool, String> {
        let Some(object) = value.as_object() else { return Ok(true) };
        for (key, member) in object {
            let known = rules.get("properties").and_then(|known| known.get(key));
            let other = rules.get("additionalProperties").filter(|other| other.is_object());
            let schema = known.or(other).ok_or_else(|| format!("`{key}` is not known"))?;
            self.check(schema, member).map_err(|fault| format!("`{key}`: {fault}"))?;
        }
        let required = rules.get("required").and_then(Value::as_array).into_iter().flatten();
        Ok(required.into_iter().all(|key| object.contains_key(key.as_str().unwrap_or_default())))
    }

    fn elements(&self, schema: &Value, value: &Value) -> Result<bool, String> {
        value.as_array().into_iter().flatten().try_for_each(|element| self.check(schema, element)).map(|()| true)
    }

    fn keys(&self, schema: &Value, value: &Value) -> Result<bool, String> {
        let mut keys = value.as_object().into_iter().flatten().map(|(key, _)| Value::from(key.as_str()));
        keys.try_for_each(|key| self.check(schema, &key)).map(|()| true)
    }
}

/// The definition that a schema refers to.
fn target(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

/// Whether a value keeps a rule that does not look inside it. A rule about another type counts as
/// kept.
fn holds(rule: &str, wanted: &Value, value: &Value) -> bool {
    let number = |value: &Value| value.as_f64();
    let bound = number(wanted);
    let letters = value.as_str().map(|text| text.chars().count() as f64);
    let at_most = |found: Option<f64>| found.is_none_or(|found| Some(found) <= bound);
    let at_least = |found: Option<f64>| found.is_none_or(|found| Some(found) >= bound);
    match rule {
        "const" => value == wanted,
        "enum" => wanted.as_array().is_some_and(|values| values.contains(value)),
        "type" => is_of(wanted.as_str(), value),
        "minimum" => at_least(number(value)),
        "maximum" => at_most(number(value)),
        "minLength" => at_least(letters),
        "maxLength" => at_most(letters),
        "maxItems" => at_most(value.as_array().map(|list| list.len() as f64)),
        "maxProperties" => at_most(value.as_object().map(|object| object.len() as f64)),
        "pattern" => value.as_str().is_none_or(|text| matches(wanted, text)),
        rule => panic!("this validator does not know `{rule}`"),
    }
}

fn is_of(kind: Option<&str>, value: &Value) -> bool {
    match kind {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64() || value.is_i64(),
        kind => panic!("this validator does not know the type {kind:?}"),
    }
}

fn matches(pattern: &Value, text: &str) -> bool {
    let pattern = pattern.as_str().expect("a pattern is a string");
    Regex::new(pattern).expect("a pattern is a regular expression").is_match(text)
}
