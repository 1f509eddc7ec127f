//! Parts of arrays, objects and strings.

use super::{Machine, Outcome};
use crate::builtins;
use crate::error::Problem;
use crate::syntax::{Expression, Member};
use crate::value::{ArrayId, ObjectId, ScopeId, Value};
use std::rc::Rc;

/// What an assignment changes. Its object and its key are evaluated once, before the value is.
pub(super) enum Place<'a> {
    Name(&'a Rc<str>),
    Member(Value, Value),
}

impl Machine {
    pub(super) fn member_expression(&mut self, member: &Member, scope: ScopeId) -> Outcome {
        let object = self.evaluate(&member.object, scope)?;
        if member.optional && object.is_nothing() {
            return Ok(Value::Undefined);
        }
        let key = self.evaluate(&member.key, scope)?;
        self.member(&object, &key)
    }

    pub(super) fn member(&mut self, object: &Value, key: &Value) -> Outcome {
        let name = self.text_of(key)?;
        match self.own_member(object, &name)? {
            Some(value) => Ok(value),
            None => self.missing_member(object, &name),
        }
    }

    fn own_member(&mut self, object: &Value, name: &str) -> Outcome<Option<Value>> {
        Ok(match object {
            Value::Undefined | Value::Null => return Err(nothing(object, name)),
            Value::Array(array) => {
                let elements = self.known_array(*array)?;
                part(name, elements.len(), |index| elements.get(index).cloned())
            }
            Value::Text(text) => {
                self.work(text.len())?;
                builtins::strings::check_units(text)?;
                part(name, text.chars().count(), |index| text.chars().nth(index).map(letter))
            }
            Value::Object(object) => self.property(*object, name)?,
            Value::Native(native) => match builtins::member(native, name) {
                None => return Err(Problem::unsupported(&format!("`{native}.{name}`"))),
                known => known,
            },
            Value::Date(_) => return Err(Problem::unsupported(&format!("`{name}` of a date"))),
            Value::Boolean(_) | Value::Number(_) | Value::Function(_) => None,
        })
    }

    /// A member that a value itself lacks may be inherited, from JavaScript or from the script.
    pub(super) fn missing_member(&self, object: &Value, name: &str) -> Outcome {
        self.changes.check_builtins()?;
        if builtins::inherited::has(object, name) {
            return Err(Problem::unsupported(&format!("the value of `{name}`")));
        }
        Ok(Value::Undefined)
    }

    /// The place that an assignment to `target` changes.
    pub(super) fn place<'a>(&mut self, target: &'a Expression, scope: ScopeId) -> Outcome<Place<'a>> {
        if let Expression::Name(name) = target {
            return Ok(Place::Name(name));
        }
        let Expression::Member(member) = target else { return Err(Problem::unsupported("this assignment")) };
        let object = self.evaluate(&member.object, scope)?;
        Ok(Place::Member(object, self.evaluate(&member.key, scope)?))
    }

    pub(super) fn value_at(&mut self, place: &Place, scope: ScopeId) -> Outcome {
        match place {
            Place::Name(name) => self.named(name, scope),
            Place::Member(object, key) => self.member(object, key),
        }
    }

    pub(super) fn put(&mut self, place: &Place, value: Value, scope: ScopeId) -> Outcome<()> {
        match place {
            Place::Name(name) => self.assign_name(name, value, scope),
            Place::Member(object, key) => self.assign_member(object, key, value),
        }
    }

    /// Assigns a value to a name or a member.
    pub(super) fn assign(&mut self, target: &Expression, value: Value, scope: ScopeId) -> Outcome<()> {
        let place = self.place(target, scope)?;
        self.put(&place, value, scope)
    }

    fn assign_member(&mut self, object: &Value, key: &Value, value: Value) -> Outcome<()> {
        let name = self.text_of(key)?;
        match object {
            Value::Array(array) => self.assign_element(*array, &name, value),
            Value::Object(object) => self.set_property(*object, name, value),
            Value::Undefined | Value::Null => Err(nothing(object, &name)),
            Value::Boolean(_)
            | Value::Number(_)
            | Value::Text(_)
            | Value::Function(_)
            | Value::Date(_)
            | Value::Native(_) => Err(Problem::unsupported(&format!("setting `{name}` here"))),
        }
    }

    fn assign_element(&mut self, array: ArrayId, name: &str, value: Value) -> Outcome<()> {
        let Some(index) = index(name) else {
            return Err(Problem::unsupported(&format!("setting `{name}` of an array")));
        };
        self.check_not_frozen(&Value::Array(array))?;
        let missing = index.saturating_add(1).saturating_sub(self.known_array(array)?.len());
        self.room(missing)?;
        let elements = self.heap.array_mut(array);
        if missing > 0 {
            elements.resize(index + 1, Value::Undefined);
        }
        elements[index] = value;
        if missing > 1 {
            self.heap.mark_sparse(array);
        }
        Ok(())
    }

    /// The elements for `for … of` and a spread.
    pub(crate) fn iterate(&mut self, value: &Value) -> Outcome<Vec<Value>> {
        match value {
            Value::Array(array) => self.elements(*array),
            Value::Text(text) => {
                self.room(text.len())?;
                Ok(text.chars().map(letter).collect())
            }
            Value::Undefined
            | Value::Null
            | Value::Boolean(_)
            | Value::Number(_)
            | Value::Object(_)
            | Value::Function(_)
            | Value::Date(_)
            | Value::Native(_) => Err(Problem::thrown(format!("{} is not iterable", value.kind()))),
        }
    }

    /// The names of the properties, or the indices.
    pub(crate) fn keys(&mut self, value: &Value) -> Outcome<Vec<Value>> {
        match value {
            Value::Object(object) => {
                Ok(self.properties(*object)?.into_iter().map(|(key, _)| Value::Text(key)).collect())
            }
            Value::Array(array) => {
                self.check_dense(*array)?;
                let count = self.known_array(*array)?.len();
                (0..count).map(|index| self.text(&index.to_string())).collect()
            }
            Value::Text(_) | Value::Native(_) => Err(Problem::unsupported("the keys of this value")),
            Value::Undefined
            | Value::Null
            | Value::Boolean(_)
            | Value::Number(_)
            | Value::Function(_)
            | Value::Date(_) => Ok(Vec::new()),
        }
    }

    /// `{ ...other }`
    pub(crate) fn copy_properties(&mut self, object: ObjectId, other: &Value) -> Outcome<()> {
        let copied = match other {
            Value::Object(other) => self.properties(*other)?,
            Value::Undefined | Value::Null => return Ok(()),
            Value::Boolean(_)
            | Value::Number(_)
            | Value::Text(_)
            | Value::Array(_)
            | Value::Function(_)
            | Value::Date(_)
            | Value::Native(_) => return Err(Problem::unsupported("copying the properties of no object")),
        };
        for (key, value) in copied {
            self.set_property(object, key, value)?;
        }
        Ok(())
    }
}

fn nothing(object: &Value, name: &str) -> Problem {
    let kind = if matches!(object, Value::Null) { "null" } else { "undefined" };
    Problem::thrown(format!("{kind} has no `{name}`"))
}

fn part(name: &str, length: usize, element: impl FnOnce(usize) -> Option<Value>) -> Option<Value> {
    match name {
        "length" => Some(Value::Number(length as f64)),
        name => element(index(name)?),
    }
}

/// The index that a key is: `02` and `+2` are names.
fn index(key: &str) -> Option<usize> {
    let is_index = key == "0" || key.starts_with(|first: char| matches!(first, '1'..='9'));
    key.parse().ok().filter(|_| is_index)
}

fn letter(letter: char) -> Value {
    Value::Text(Rc::from(letter.encode_utf8(&mut [0; 4]) as &str))
}
