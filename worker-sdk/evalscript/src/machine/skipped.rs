//! Statements that are skipped: everything that they can reach becomes unknown.

use super::{Machine, Outcome};
use crate::builtins;
use crate::error::ScriptError;
use crate::parser::{Mentions, declared_for_later};
use crate::token::Tokens;
use crate::value::{ArrayId, FunctionId, ObjectId, ScopeId, Value};
use std::collections::BTreeSet;
use std::rc::Rc;

/// What one skipped statement reaches.
#[derive(Default)]
struct Reach {
    waiting: Vec<(Tokens, ScopeId)>,
    arrays: BTreeSet<ArrayId>,
    objects: BTreeSet<ObjectId>,
    functions: BTreeSet<FunctionId>,
    for_later: BTreeSet<usize>,
}

impl Machine {
    /// Marks everything as unknown that a skipped statement may have changed.
    pub(super) fn pass_over(&mut self, tokens: &Tokens, error: ScriptError, global: ScopeId) -> Outcome<()> {
        self.changes.skip(error);
        if let Some(name) = declared_for_later(tokens) {
            self.changes.keep_for_later(name.clone(), tokens.clone());
            return self.mark_name(&name, global);
        }
        let mut reach = Reach::default();
        reach.waiting.push((tokens.clone(), global));
        while let Some((tokens, scope)) = reach.waiting.pop() {
            self.work(tokens.range.len())?;
            let mut mentions = Mentions::of(&tokens);
            if mentions.everything {
                let globals = self.heap.scope(global).names.iter().map(|(name, _)| name.clone());
                mentions.assigned.extend(globals);
                mentions.used.extend(mentions.assigned.iter().cloned());
            }
            for name in &mentions.with_changed_members {
                self.mark_builtin(name, scope)?;
            }
            for name in &mentions.used {
                self.reach(name, scope, &mut reach)?;
            }
            for name in &mentions.assigned {
                self.mark_name(name, scope)?;
            }
        }
        Ok(())
    }

    /// Marks JavaScript's own methods, if the name stands for one of its globals.
    fn mark_builtin(&mut self, name: &str, scope: ScopeId) -> Outcome<()> {
        let is_builtin = match self.declaring_scope(name, scope)?.1 {
            Some(value) => matches!(value, Value::Native(_)),
            None => builtins::is_standard(name) || builtins::global(name).is_some(),
        };
        if is_builtin {
            self.changes.mark_builtins();
        }
        Ok(())
    }

    /// Marks a name in the scope that declares it.
    fn mark_name(&mut self, name: &Rc<str>, scope: ScopeId) -> Outcome<()> {
        let (scope, value) = self.declaring_scope(name, scope)?;
        self.room(1)?;
        self.changes.mark_name(scope, name.clone(), value.is_some());
        Ok(())
    }

    /// The scope that declares a name, and its value there; the global scope if none does.
    fn declaring_scope(&mut self, name: &str, mut scope: ScopeId) -> Outcome<(ScopeId, Option<Value>)> {
        loop {
            self.work(self.heap.scope(scope).names.len())?;
            let found = self.heap.scope(scope).names.iter().find(|(known, _)| **known == *name);
            match (found, self.heap.scope(scope).parent) {
                (None, Some(parent)) => scope = parent,
                (found, _) => return Ok((scope, found.map(|(_, value)| value.clone()))),
            }
        }
    }

    /// Marks what can be reached from the value of a name, and the functions that may be called.
    fn reach(&mut self, name: &str, scope: ScopeId, reach: &mut Reach) -> Outcome<()> {
        for (number, tokens) in self.changes.kept(name) {
            if reach.for_later.insert(number) {
                reach.waiting.push((tokens.clone(), scope));
            }
        }
        let (_, value) = self.declaring_scope(name, scope)?;
        let mut values: Vec<Value> = value.into_iter().collect();
        while let Some(value) = values.pop() {
            match value {
                Value::Array(array) if reach.arrays.insert(array) => {
                    self.room(self.heap.array(array).len() + 1)?;
                    values.extend(self.heap.array(array).iter().cloned());
                    self.changes.mark_array(array);
                }
                Value::Object(object) if reach.objects.insert(object) => {
                    self.room(self.heap.object(object).len() + 1)?;
                    values.extend(self.heap.object(object).iter().map(|(_, value)| value.clone()));
                    self.changes.mark_object(object);
                }
                Value::Function(function) if reach.functions.insert(function) => {
                    let closure = self.heap.function(function);
                    reach.waiting.push((closure.function.tokens.clone(), closure.scope));
                }
                Value::Date(date) => self.changes.mark_date(date),
                Value::Array(_)
                | Value::Object(_)
                | Value::Function(_)
                | Value::Undefined
                | Value::Null
                | Value::Boolean(_)
                | Value::Number(_)
                | Value::Text(_)
                | Value::Native(_) => {}
            }
        }
        Ok(())
    }
}
