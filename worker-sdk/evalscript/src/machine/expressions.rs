//! Expressions.

use super::{Machine, Outcome};
use crate::builtins;
use crate::error::Problem;
use crate::syntax::{Element, Expression, Logical, Operator, Pattern, Property, Scoping, Unary};
use crate::value::{ScopeId, Value};
use std::rc::Rc;

impl Machine {
    pub(super) fn evaluate(&mut self, expression: &Expression, scope: ScopeId) -> Outcome {
        self.nested(|machine| machine.value(expression, scope))
    }

    fn value(&mut self, expression: &Expression, scope: ScopeId) -> Outcome {
        match expression {
            Expression::Undefined => Ok(Value::Undefined),
            Expression::Null => Ok(Value::Null),
            Expression::Boolean(boolean) => Ok(Value::Boolean(*boolean)),
            Expression::Number(number) => Ok(Value::Number(*number)),
            Expression::Text(text) => Ok(Value::Text(text.clone())),
            Expression::Template(texts, values) => self.template(texts, values, scope),
            Expression::Name(name) => self.named(name, scope),
            Expression::Array(elements) => {
                let is_sparse = elements.iter().any(|element| matches!(element, Element::Empty));
                let elements = self.list(elements, scope)?;
                if is_sparse { self.sparse_array(elements) } else { self.array(elements) }
            }
            Expression::Object(properties) => self.object_literal(properties, scope),
            Expression::Function(function) => self.closure(function, scope),
            Expression::Member(member) => self.member_expression(member, scope),
            Expression::Call(call) => self.call_expression(call, scope),
            Expression::New(name, arguments) => {
                let arguments = self.list(arguments, scope)?;
                self.construct(name, &arguments, scope)
            }
            Expression::Unary(operator, operand) => self.unary(*operator, operand, scope),
            Expression::Binary(operator, both) => {
                let left = self.evaluate(&both.0, scope)?;
                let right = self.evaluate(&both.1, scope)?;
                self.binary(*operator, &left, &right)
            }
            Expression::Logical(operator, both) => {
                let left = self.evaluate(&both.0, scope)?;
                if decides(*operator, &left) { Ok(left) } else { self.evaluate(&both.1, scope) }
            }
            Expression::Conditional(parts) => {
                let then = self.evaluate(&parts.0, scope)?.is_true();
                self.evaluate(if then { &parts.1 } else { &parts.2 }, scope)
            }
            Expression::Assign(parts) => self.assignment(&parts.0, &parts.1, scope),
            Expression::Update(parts) => self.update(&parts.0, parts.1, &parts.2, scope),
            Expression::Step(target, by, before) => self.step(target, *by, *before, scope),
            Expression::Sequence(all) => {
                let mut last = Value::Undefined;
                for expression in all {
                    last = self.evaluate(expression, scope)?;
                }
                Ok(last)
            }
        }
    }

    fn template(&mut self, texts: &[Rc<str>], values: &[Expression], scope: ScopeId) -> Outcome {
        let mut whole = String::new();
        for (index, text) in texts.iter().enumerate() {
            whole.push_str(text);
            if let Some(value) = values.get(index) {
                let value = self.evaluate(value, scope)?;
                whole.push_str(&self.text_of(&value)?);
            }
            self.room_for_text(whole.len())?;
        }
        self.text(&whole)
    }

    /// The values of elements or arguments.
    pub(super) fn list(&mut self, elements: &[Element], scope: ScopeId) -> Outcome<Vec<Value>> {
        let mut values = Vec::new();
        for element in elements {
            match element {
                Element::One(expression) => values.push(self.evaluate(expression, scope)?),
                Element::Empty => values.push(Value::Undefined),
                Element::Spread(expression) => {
                    let spread = self.evaluate(expression, scope)?;
                    values.extend(self.iterate(&spread)?);
                }
            }
        }
        Ok(values)
    }

    fn object_literal(&mut self, properties: &[Property], scope: ScopeId) -> Outcome {
        let object = self.object(Vec::new())?;
        let Value::Object(id) = object else { unreachable!("an object was just made") };
        for property in properties {
            match property {
                Property::Pair(key, value) => {
                    let key = self.evaluate(key, scope)?;
                    let key = self.text_of(&key)?;
                    let value = self.evaluate(value, scope)?;
                    self.set_property(id, key, value)?;
                }
                Property::Spread(other) => {
                    let other = self.evaluate(other, scope)?;
                    self.copy_properties(id, &other)?;
                }
            }
        }
        Ok(object)
    }

    fn unary(&mut self, operator: Unary, operand: &Expression, scope: ScopeId) -> Outcome {
        if let (Unary::Typeof, Expression::Name(name)) = (operator, operand) {
            let known = self.find(name, scope)?.or_else(|| builtins::global(name));
            if known.is_none() && builtins::is_standard(name) {
                return Err(Problem::unsupported(&format!("`typeof {name}`")));
            }
            return self.text(known.map_or("undefined", |value| value.kind()));
        }
        let value = self.evaluate(operand, scope)?;
        Ok(match operator {
            Unary::Not => Value::Boolean(!value.is_true()),
            Unary::Minus => Value::Number(-self.number_of(&value)?),
            Unary::Plus => Value::Number(self.number_of(&value)?),
            Unary::Typeof => return self.text(value.kind()),
            Unary::Void => Value::Undefined,
        })
    }

    fn assignment(&mut self, pattern: &Pattern, value: &Expression, scope: ScopeId) -> Outcome {
        let Pattern::Target(target) = pattern else {
            let value = self.evaluate(value, scope)?;
            self.bind(pattern, value.clone(), Scoping::Existing, scope)?;
            return Ok(value);
        };
        let place = self.place(target, scope)?;
        let value = self.evaluate(value, scope)?;
        self.put(&place, value.clone(), scope)?;
        Ok(value)
    }

    fn update(&mut self, target: &Expression, operator: Operator, value: &Expression, scope: ScopeId) -> Outcome {
        let place = self.place(target, scope)?;
        let before = self.value_at(&place, scope)?;
        let after = match operator {
            Operator::Logical(operator) if decides(operator, &before) => return Ok(before),
            Operator::Logical(_) => self.evaluate(value, scope)?,
            Operator::Binary(operator) => {
                let value = self.evaluate(value, scope)?;
                self.binary(operator, &before, &value)?
            }
        };
        self.put(&place, after.clone(), scope)?;
        Ok(after)
    }

    fn step(&mut self, target: &Expression, by: f64, before: bool, scope: ScopeId) -> Outcome {
        let place = self.place(target, scope)?;
        let value = self.value_at(&place, scope)?;
        let number = self.number_of(&value)?;
        self.put(&place, Value::Number(number + by), scope)?;
        Ok(Value::Number(if before { number } else { number + by }))
    }
}

/// Whether the left side alone decides the result.
fn decides(operator: Logical, left: &Value) -> bool {
    match operator {
        Logical::And => !left.is_true(),
        Logical::Or => left.is_true(),
        Logical::Else => !left.is_nothing(),
    }
}
