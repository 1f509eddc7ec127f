//! Operators, and the conversion of values into numbers and texts.

use super::{Machine, Outcome};
use crate::error::Problem;
use crate::number;
use crate::syntax::Binary;
use crate::value::Value;
use std::cmp::Ordering;
use std::rc::Rc;

impl Machine {
    pub(super) fn binary(&mut self, operator: Binary, left: &Value, right: &Value) -> Outcome {
        Ok(match operator {
            Binary::Add => return self.add(left, right),
            Binary::Subtract => Value::Number(self.number_of(left)? - self.number_of(right)?),
            Binary::Multiply => Value::Number(self.number_of(left)? * self.number_of(right)?),
            Binary::Divide => Value::Number(self.number_of(left)? / self.number_of(right)?),
            Binary::Remainder => Value::Number(self.number_of(left)? % self.number_of(right)?),
            Binary::Power => Value::Number(number::power(self.number_of(left)?, self.number_of(right)?)),
            Binary::Equal => Value::Boolean(self.equal(left, right)?),
            Binary::Unequal => Value::Boolean(!self.equal(left, right)?),
            Binary::Same => Value::Boolean(left.same(right)),
            Binary::NotSame => Value::Boolean(!left.same(right)),
            Binary::Less => self.compare(left, right, &[Ordering::Less])?,
            Binary::LessOrEqual => self.compare(left, right, &[Ordering::Less, Ordering::Equal])?,
            Binary::Greater => self.compare(left, right, &[Ordering::Greater])?,
            Binary::GreaterOrEqual => self.compare(left, right, &[Ordering::Greater, Ordering::Equal])?,
            Binary::In => self.contains(left, right)?,
        })
    }

    fn add(&mut self, left: &Value, right: &Value) -> Outcome {
        let numeric = |value: &Value| match value {
            Value::Undefined | Value::Null | Value::Boolean(_) | Value::Number(_) => true,
            Value::Text(_)
            | Value::Array(_)
            | Value::Object(_)
            | Value::Function(_)
            | Value::Date(_)
            | Value::Native(_) => false,
        };
        if numeric(left) && numeric(right) {
            return Ok(Value::Number(self.number_of(left)? + self.number_of(right)?));
        }
        let (left, right) = (self.text_of(left)?, self.text_of(right)?);
        self.room_for_text(left.len() + right.len())?;
        Ok(Value::Text(format!("{left}{right}").into()))
    }

    /// `==`
    fn equal(&mut self, left: &Value, right: &Value) -> Outcome<bool> {
        if left.is_nothing() || right.is_nothing() {
            return Ok(left.is_nothing() && right.is_nothing());
        }
        match (is_object(left), is_object(right)) {
            (true, true) => Ok(left.same(right)),
            (false, false) if left.kind() == right.kind() => Ok(left.same(right)),
            (false, false) => Ok(self.number_of(left)? == self.number_of(right)?),
            (true, false) | (false, true) => Err(Problem::unsupported("`==` of an object and another value")),
        }
    }

    fn compare(&mut self, left: &Value, right: &Value, accepted: &[Ordering]) -> Outcome {
        let ordering = match (left, right) {
            (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
            _ if is_text_in_comparisons(left) || is_text_in_comparisons(right) => {
                return Err(Problem::unsupported("the order of an object and another value"));
            }
            _ => self.number_of(left)?.partial_cmp(&self.number_of(right)?),
        };
        Ok(Value::Boolean(ordering.is_some_and(|ordering| accepted.contains(&ordering))))
    }

    /// `key in object`
    fn contains(&mut self, key: &Value, object: &Value) -> Outcome {
        let Value::Object(object) = object else { return Err(Problem::unsupported("`in` without an object")) };
        let key = self.text_of(key)?;
        let has = self.property(*object, &key)?.is_some();
        if !has {
            self.missing_member(&Value::Object(*object), &key)?;
        }
        Ok(Value::Boolean(has))
    }

    pub(crate) fn number_of(&mut self, value: &Value) -> Outcome<f64> {
        Ok(match value {
            Value::Undefined | Value::Function(_) | Value::Native(_) => f64::NAN,
            Value::Null => 0.0,
            Value::Boolean(boolean) => f64::from(*boolean),
            Value::Number(number) => *number,
            Value::Date(date) => self.time(*date)?,
            Value::Object(_) => number::of_text(&self.text_of(value)?),
            Value::Text(text) => {
                self.work(text.len())?;
                number::of_text(text)
            }
            Value::Array(_) => number::of_text(&self.text_of(value)?),
        })
    }

    pub(crate) fn text_of(&mut self, value: &Value) -> Outcome<Rc<str>> {
        Ok(match value {
            Value::Text(text) => text.clone(),
            Value::Undefined => Rc::from("undefined"),
            Value::Null => Rc::from("null"),
            Value::Boolean(boolean) => Rc::from(if *boolean { "true" } else { "false" }),
            Value::Number(number) => {
                self.room_for_text(0)?;
                Rc::from(number::text(*number))
            }
            Value::Array(array) => {
                let elements = self.elements(*array)?;
                self.join(&elements, ",")?
            }
            Value::Object(object) => {
                let converts = |name: &Rc<str>| matches!(&**name, "toString" | "valueOf");
                if self.properties(*object)?.iter().any(|(name, _)| converts(name)) {
                    return Err(Problem::unsupported("an object that says how it is converted"));
                }
                Rc::from("[object Object]")
            }
            Value::Date(_) => return Err(Problem::unsupported("a date as text")),
            Value::Function(_) | Value::Native(_) => return Err(Problem::unsupported("a function as text")),
        })
    }

    /// The texts of some values, joined by `between`.
    pub(crate) fn join(&mut self, values: &[Value], between: &str) -> Outcome<Rc<str>> {
        let mut whole = String::new();
        for (index, value) in values.iter().enumerate() {
            let between = if index == 0 { "" } else { between };
            let text = match value.is_nothing() {
                true => Rc::from(""),
                false => self.nested(|machine| machine.text_of(value))?,
            };
            self.room_for_text(between.len() + text.len())?;
            whole.push_str(between);
            whole.push_str(&text);
        }
        Ok(whole.into())
    }
}

fn is_object(value: &Value) -> bool {
    match value {
        Value::Undefined | Value::Null | Value::Boolean(_) | Value::Number(_) | Value::Text(_) => false,
        Value::Array(_) | Value::Object(_) | Value::Function(_) | Value::Date(_) | Value::Native(_) => true,
    }
}

/// Whether `<` converts a value into text first.
fn is_text_in_comparisons(value: &Value) -> bool {
    is_object(value) && !matches!(value, Value::Date(_))
}
