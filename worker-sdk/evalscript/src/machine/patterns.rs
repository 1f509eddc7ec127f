//! Patterns: binding values to names.

use super::{Machine, Outcome};
use crate::error::Problem;
use crate::syntax::{Expression, Pattern, Scoping};
use crate::value::{ScopeId, Value};
use std::rc::Rc;

impl Machine {
    /// Takes a value apart, and assigns its parts to the names in `pattern`.
    pub(super) fn bind(&mut self, pattern: &Pattern, value: Value, scoping: Scoping, scope: ScopeId) -> Outcome<()> {
        match pattern {
            Pattern::Target(target) => self.bind_target(target, value, scoping, scope),
            Pattern::Default(pattern, default) => {
                let is_given = !matches!(value, Value::Undefined);
                let value = if is_given { value } else { self.evaluate(default, scope)? };
                self.bind(pattern, value, scoping, scope)
            }
            Pattern::Array(elements, rest) => {
                let values = self.iterate(&value)?;
                self.bind_elements(elements, rest.as_deref(), values, scoping, scope)
            }
            Pattern::Object(properties, rest) => {
                self.bind_properties(properties, rest.as_deref(), &value, scoping, scope)
            }
        }
    }

    fn bind_target(&mut self, target: &Expression, value: Value, scoping: Scoping, scope: ScopeId) -> Outcome<()> {
        let Expression::Name(name) = target else { return self.assign(target, value, scope) };
        match scoping {
            Scoping::Block => self.declare(name, value, scope),
            Scoping::Function => self.declare(name, value, self.function_scope(scope)),
            Scoping::Existing => self.assign_name(name, value, scope),
        }
    }

    pub(super) fn bind_elements(
        &mut self,
        elements: &[Option<Pattern>],
        rest: Option<&Pattern>,
        values: Vec<Value>,
        scoping: Scoping,
        scope: ScopeId,
    ) -> Outcome<()> {
        let mut values = values.into_iter();
        for element in elements {
            let value = values.next().unwrap_or(Value::Undefined);
            if let Some(pattern) = element {
                self.bind(pattern, value, scoping, scope)?;
            }
        }
        let Some(pattern) = rest else { return Ok(()) };
        let rest = self.array(values.collect())?;
        self.bind(pattern, rest, scoping, scope)
    }

    fn bind_properties(
        &mut self,
        properties: &[(Rc<str>, Pattern)],
        rest: Option<&Pattern>,
        value: &Value,
        scoping: Scoping,
        scope: ScopeId,
    ) -> Outcome<()> {
        for (key, pattern) in properties {
            let value = self.member(value, &Value::Text(key.clone()))?;
            self.bind(pattern, value, scoping, scope)?;
        }
        let Some(pattern) = rest else { return Ok(()) };
        let Value::Object(object) = value else { return Err(Problem::unsupported("the rest of no object")) };
        let others = self.properties(*object)?.into_iter();
        let others = others.filter(|(name, _)| properties.iter().all(|(key, _)| key != name)).collect();
        let rest = self.object(others)?;
        self.bind(pattern, rest, scoping, scope)
    }
}
