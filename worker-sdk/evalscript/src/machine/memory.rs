//! Memory: everything is charged before it is made.

use super::{Machine, Outcome};
use crate::error::Problem;
use crate::syntax::Function;
use crate::value::{ArrayId, Closure, DateId, ObjectId, Properties, ScopeId, Value};
use std::rc::Rc;

/// A value in a vector that has doubled.
const ELEMENT: usize = 2 * size_of::<Value>();
/// A name and a value in a vector that has doubled.
const PAIR: usize = 2 * size_of::<(Rc<str>, Value)>();
/// The overhead of an array, an object, a scope or a closure.
const HOLDER: usize = 128;
/// How many elements or names are as much work as a step.
const ELEMENTS_IN_A_STEP: usize = 8;
/// How many bytes of text are as much work as a step.
const BYTES_IN_A_STEP: usize = 128;

impl Machine {
    /// Charges the work on `amount` elements, names or characters.
    pub(crate) fn work(&mut self, amount: usize) -> Outcome<()> {
        self.meter.step(amount / ELEMENTS_IN_A_STEP + 1)
    }

    /// Charges room for `elements`.
    pub(crate) fn room(&mut self, elements: usize) -> Outcome<()> {
        self.meter.take(elements.saturating_mul(ELEMENT))?;
        self.work(elements)
    }

    /// Charges a text of `bytes`.
    pub(crate) fn room_for_text(&mut self, bytes: usize) -> Outcome<()> {
        self.meter.take(bytes.saturating_add(HOLDER / 4))?;
        self.meter.step(bytes / BYTES_IN_A_STEP)
    }

    pub(crate) fn text(&mut self, text: &str) -> Outcome {
        self.room_for_text(text.len())?;
        Ok(Value::Text(Rc::from(text)))
    }

    pub(crate) fn array(&mut self, elements: Vec<Value>) -> Outcome {
        self.room(elements.len())?;
        self.meter.take(HOLDER)?;
        Ok(self.heap.add_array(elements))
    }

    pub(crate) fn object(&mut self, properties: Properties) -> Outcome {
        self.meter.take(HOLDER + properties.len() * PAIR)?;
        Ok(self.heap.add_object(properties))
    }

    pub(super) fn closure(&mut self, function: &Rc<Function>, scope: ScopeId) -> Outcome {
        self.meter.take(HOLDER)?;
        Ok(self.heap.add_function(Closure { function: function.clone(), scope }))
    }

    pub(super) fn scope(&mut self, parent: ScopeId, is_function: bool) -> Outcome<ScopeId> {
        self.meter.take(HOLDER)?;
        Ok(self.heap.add_scope(Some(parent), is_function))
    }

    /// `Object.freeze(value)`
    pub(crate) fn freeze(&mut self, value: &Value) {
        self.heap.freeze(value);
    }

    /// JavaScript ignores a change of a frozen object or throws, depending on its mode.
    pub(super) fn check_not_frozen(&self, value: &Value) -> Outcome<()> {
        if self.heap.is_frozen(value) { Err(Problem::unsupported("a change of a frozen object")) } else { Ok(()) }
    }

    /// A copy of the elements.
    pub(crate) fn elements(&mut self, array: ArrayId) -> Outcome<Vec<Value>> {
        self.room(self.known_array(array)?.len())?;
        Ok(self.heap.array(array).to_vec())
    }

    pub(crate) fn elements_mut(&mut self, array: ArrayId) -> Outcome<&mut Vec<Value>> {
        self.known_array(array)?;
        self.check_not_frozen(&Value::Array(array))?;
        Ok(self.heap.array_mut(array))
    }

    pub(super) fn known_array(&self, array: ArrayId) -> Outcome<&[Value]> {
        self.changes.check_array(array)?;
        Ok(self.heap.array(array))
    }

    fn known_object(&self, object: ObjectId) -> Outcome<&Properties> {
        self.changes.check_object(object)?;
        Ok(self.heap.object(object))
    }

    pub(crate) fn date(&mut self, time: f64) -> Outcome {
        self.meter.take(HOLDER)?;
        Ok(self.heap.add_date(time))
    }

    /// The time of a date, in milliseconds since 1970.
    pub(crate) fn time(&self, date: DateId) -> Outcome<f64> {
        self.changes.check_date(date)?;
        Ok(self.heap.date(date))
    }

    pub(crate) fn set_time(&mut self, date: DateId, time: f64) {
        *self.heap.date_mut(date) = time;
    }

    /// An array of which undefined elements may be empty ones, as `new Array(3)` makes them.
    pub(crate) fn sparse_array(&mut self, elements: Vec<Value>) -> Outcome {
        let array = self.array(elements)?;
        if let Value::Array(array) = array {
            self.heap.mark_sparse(array);
        }
        Ok(array)
    }

    /// All elements of an array have got a value.
    pub(crate) fn mark_dense(&mut self, array: ArrayId) {
        self.heap.mark_dense(array);
    }

    /// Methods pass over an empty element, and not over one that is `undefined`. Once every element
    /// has got a value, an array has no empty one.
    pub(crate) fn check_dense(&mut self, array: ArrayId) -> Outcome<()> {
        if !self.heap.is_sparse(array) {
            return Ok(());
        }
        self.work(self.heap.array(array).len())?;
        let is_filled = self.heap.array(array).iter().all(|element| !matches!(element, Value::Undefined));
        if is_filled { Ok(()) } else { Err(Problem::unsupported("an empty element of an array")) }
    }

    pub(crate) fn push(&mut self, array: ArrayId, element: Value) -> Outcome<()> {
        self.room(1)?;
        self.elements_mut(array)?.push(element);
        Ok(())
    }

    /// A copy of the properties. Keys that are indices come first, in their order.
    pub(crate) fn properties(&mut self, object: ObjectId) -> Outcome<Properties> {
        let count = self.known_object(object)?.len();
        self.work(count)?;
        self.meter.take(count * PAIR)?;
        let mut properties = self.heap.object(object).clone();
        properties.sort_by_cached_key(|(key, _)| index_of_key(key).unwrap_or(u64::MAX));
        Ok(properties)
    }

    pub(crate) fn property(&mut self, object: ObjectId, key: &str) -> Outcome<Option<Value>> {
        self.work(self.known_object(object)?.len())?;
        let found = self.heap.object(object).iter().find(|(name, _)| **name == *key);
        Ok(found.map(|(_, value)| value.clone()))
    }

    pub(crate) fn set_property(&mut self, object: ObjectId, key: Rc<str>, value: Value) -> Outcome<()> {
        self.work(self.known_object(object)?.len())?;
        self.check_not_frozen(&Value::Object(object))?;
        if *key == *"__proto__" {
            return Err(Problem::unsupported("`__proto__`"));
        }
        let properties = self.heap.object_mut(object);
        if let Some(known) = properties.iter_mut().find(|(name, _)| *name == key) {
            known.1 = value;
            return Ok(());
        }
        self.meter.take(PAIR)?;
        properties.push((key, value));
        Ok(())
    }

    /// The value of a name in a scope or an outer one.
    pub(super) fn find(&mut self, name: &str, scope: ScopeId) -> Outcome<Option<Value>> {
        let mut next = Some(scope);
        while let Some(id) = next {
            self.work(self.heap.scope(id).names.len())?;
            self.changes.check_name(id, name)?;
            let scope = self.heap.scope(id);
            if let Some((_, value)) = scope.names.iter().find(|(known, _)| **known == *name) {
                return Ok(Some(value.clone()));
            }
            next = scope.parent;
        }
        Ok(None)
    }

    /// Declares a name, or changes its value in the same scope.
    pub(super) fn declare(&mut self, name: &Rc<str>, value: Value, scope: ScopeId) -> Outcome<()> {
        self.work(self.heap.scope(scope).names.len())?;
        self.changes.forget(scope, name);
        let names = &mut self.heap.scope_mut(scope).names;
        if let Some(known) = names.iter_mut().find(|(known, _)| known == name) {
            known.1 = value;
            return Ok(());
        }
        self.meter.take(PAIR)?;
        names.push((name.clone(), value));
        Ok(())
    }

    /// Changes the value of a name. One that is not declared becomes a global.
    pub(super) fn assign_name(&mut self, name: &Rc<str>, value: Value, scope: ScopeId) -> Outcome<()> {
        let (mut next, mut outermost) = (Some(scope), scope);
        while let Some(id) = next {
            outermost = id;
            self.work(self.heap.scope(id).names.len())?;
            if self.changes.forget(id, name) {
                return self.declare(name, value, id);
            }
            let scope = self.heap.scope_mut(id);
            if let Some(known) = scope.names.iter_mut().find(|(known, _)| known == name) {
                known.1 = value;
                return Ok(());
            }
            next = scope.parent;
        }
        self.declare(name, value, outermost)
    }

    /// The scope in which `var` declares.
    pub(super) fn function_scope(&self, mut scope: ScopeId) -> ScopeId {
        while let (false, Some(parent)) = (self.heap.scope(scope).is_function, self.heap.scope(scope).parent) {
            scope = parent;
        }
        scope
    }
}

/// The index that a key is, if it is one.
fn index_of_key(key: &str) -> Option<u64> {
    let is_canonical = key == "0" || key.bytes().all(|byte| byte.is_ascii_digit()) && !key.starts_with('0');
    key.parse().ok().filter(|index| is_canonical && *index < u64::from(u32::MAX))
}
