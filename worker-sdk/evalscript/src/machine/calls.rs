//! Calls.

use super::statements::Flow;
use super::{Machine, Outcome};
use crate::builtins;
use crate::error::Problem;
use crate::parser;
use crate::syntax::{Body, Call, Expression, Function, Member, ParsedFunction, Pattern, Scoping};
use crate::value::{Closure, ScopeId, Value};

impl Machine {
    pub(super) fn call_expression(&mut self, call: &Call, scope: ScopeId) -> Outcome {
        if let Expression::Member(member) = &call.callee {
            return self.call_member(member, call, scope);
        }
        let callee = self.evaluate(&call.callee, scope)?;
        if call.optional && callee.is_nothing() {
            return Ok(Value::Undefined);
        }
        let arguments = self.list(&call.arguments, scope)?;
        self.line = call.line;
        self.call(&callee, arguments)
    }

    fn call_member(&mut self, member: &Member, call: &Call, scope: ScopeId) -> Outcome {
        let object = self.evaluate(&member.object, scope)?;
        if member.optional && object.is_nothing() {
            return Ok(Value::Undefined);
        }
        let key = self.evaluate(&member.key, scope)?;
        let arguments = self.list(&call.arguments, scope)?;
        self.line = call.line;
        let name = self.text_of(&key)?;
        if !matches!(object, Value::Object(_)) {
            self.changes.check_builtins()?;
        }
        match &object {
            Value::Array(array) => builtins::arrays::call(self, *array, &name, &arguments),
            Value::Text(text) => builtins::strings::call(self, text, &name, &arguments),
            Value::Number(number) => builtins::numbers::call(self, *number, &name, &arguments),
            Value::Date(date) => builtins::dates::call(self, *date, &name, &arguments),
            Value::Undefined
            | Value::Null
            | Value::Boolean(_)
            | Value::Object(_)
            | Value::Function(_)
            | Value::Native(_) => {
                let callee = self.member(&object, &key)?;
                match (callee.is_nothing(), call.optional) {
                    (false, _) => self.call(&callee, arguments),
                    (true, true) => Ok(Value::Undefined),
                    (true, false) => Err(Problem::thrown(format!("there is no function `{name}`"))),
                }
            }
        }
    }

    /// Calls a value, which has to be a function.
    pub(crate) fn call(&mut self, callee: &Value, arguments: Vec<Value>) -> Outcome {
        match callee {
            Value::Function(function) => {
                let closure = self.heap.function(*function);
                self.nested(|machine| machine.call_closure(&closure, arguments))
            }
            Value::Native(native) => {
                self.changes.check_builtins()?;
                builtins::globals::call(self, native, &arguments)
            }
            Value::Undefined
            | Value::Null
            | Value::Boolean(_)
            | Value::Number(_)
            | Value::Text(_)
            | Value::Array(_)
            | Value::Object(_)
            | Value::Date(_) => Err(Problem::thrown(format!("{} is not a function", callee.kind()))),
        }
    }

    fn call_closure(&mut self, closure: &Closure, arguments: Vec<Value>) -> Outcome {
        let scope = self.scope(closure.scope, true)?;
        let parsed = self.parsed_function(&closure.function)?;
        if let Pattern::Array(elements, rest) = &parsed.parameters {
            self.room(arguments.len())?;
            self.bind_elements(elements, rest.as_deref(), arguments, Scoping::Block, scope)?;
        }
        self.hoist_variables(&parsed.variables, scope)?;
        if let Body::Expression(expression) = &closure.function.body {
            return self.evaluate(expression, scope);
        }
        match self.body(&parsed.statements, scope)? {
            Flow::Return(value) => Ok(value),
            Flow::Next | Flow::Break | Flow::Continue => Ok(Value::Undefined),
        }
    }

    /// Parses a function on its first call.
    fn parsed_function<'a>(&mut self, function: &'a Function) -> Outcome<&'a ParsedFunction> {
        if let Some(parsed) = function.parsed.get() {
            return Ok(parsed);
        }
        let parsed = parser::parse_function(function).map_err(|error| {
            self.line = error.line;
            error.problem
        })?;
        Ok(function.parsed.get_or_init(|| parsed))
    }

    /// `new Array(…)`
    pub(super) fn construct(&mut self, name: &str, arguments: &[Value], scope: ScopeId) -> Outcome {
        if self.find(name, scope)?.is_some() {
            return Err(Problem::unsupported(&format!("`new {name}`")));
        }
        self.changes.check_builtins()?;
        match name {
            "Date" => builtins::dates::new(self, arguments),
            "Array" => builtins::globals::call(self, "Array", arguments),
            "Error" | "TypeError" | "RangeError" => Ok(arguments.first().cloned().unwrap_or(Value::Undefined)),
            _ => Err(Problem::unsupported(&format!("`new {name}`"))),
        }
    }
}
