//! From a value to JSON.

use super::{Machine, Outcome};
use crate::builtins;
use crate::value::Value;
use serde_json::{Map, Value as Json};

/// Whole numbers below this are written as integers. A float has all of them.
const INTEGERS_BELOW: f64 = 9_007_199_254_740_992.0;

impl Machine {
    /// The value as JSON, without functions and undefined properties.
    pub(super) fn json(&mut self, value: &Value) -> Outcome<Json> {
        self.nested(|machine| machine.json_of(value))
    }

    fn json_of(&mut self, value: &Value) -> Outcome<Json> {
        Ok(match value {
            Value::Undefined | Value::Null | Value::Function(_) | Value::Native(_) => Json::Null,
            Value::Boolean(boolean) => Json::Bool(*boolean),
            Value::Number(number) if number.fract() == 0.0 && number.abs() < INTEGERS_BELOW => {
                Json::from(*number as i64)
            }
            Value::Number(number) => Json::from(*number),
            Value::Text(text) => {
                self.room_for_text(text.len())?;
                Json::from(&**text)
            }
            Value::Date(date) => Json::from(builtins::dates::text(self.time(*date)?)?),
            Value::Array(array) => {
                let elements = self.elements(*array)?;
                self.room(elements.len() * 2)?;
                elements.iter().map(|element| self.json(element)).collect::<Outcome<_>>()?
            }
            Value::Object(object) => {
                let mut map = Map::new();
                for (key, value) in self.properties(*object)? {
                    if !matches!(value, Value::Undefined | Value::Function(_)) {
                        self.room_for_text(key.len())?;
                        map.insert(key.to_string(), self.json(&value)?);
                    }
                }
                Json::Object(map)
            }
        })
    }
}
