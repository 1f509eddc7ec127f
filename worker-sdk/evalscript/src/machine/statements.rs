//! Statements.

use super::{Machine, Outcome};
use crate::error::Problem;
use crate::syntax::{Case, Each, Expression, Pattern, Scoping, Statement, StatementKind};
use crate::value::{ArrayId, ScopeId, Value};
use std::collections::BTreeSet;
use std::rc::Rc;

/// How evaluation goes on after a statement.
#[derive(Debug)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
}

impl Machine {
    /// Declares the functions among `statements`, which may be called before their lines.
    pub(super) fn hoist<'a>(
        &mut self,
        statements: impl IntoIterator<Item = &'a Statement>,
        scope: ScopeId,
    ) -> Outcome<()> {
        for statement in statements {
            if let StatementKind::Function(function) = &statement.kind {
                let closure = self.closure(function, scope)?;
                self.declare(&function.name, closure, scope)?;
            }
        }
        Ok(())
    }

    /// Declares what `var` declares. A parameter or a function of the same name keeps its value.
    pub(super) fn hoist_variables(&mut self, variables: &BTreeSet<Rc<str>>, scope: ScopeId) -> Outcome<()> {
        for name in variables {
            self.work(self.heap.scope(scope).names.len())?;
            if self.heap.scope(scope).names.iter().all(|(known, _)| known != name) {
                self.declare(name, Value::Undefined, scope)?;
            }
        }
        Ok(())
    }

    /// A function in a block is a variable of the function around the block, too.
    fn hoist_out(&mut self, statements: &[Statement], scope: ScopeId) -> Outcome<()> {
        for statement in statements {
            if let StatementKind::Function(function) = &statement.kind {
                let closure = self.named(&function.name, scope)?;
                self.declare(&function.name, closure, self.function_scope(scope))?;
            }
        }
        Ok(())
    }

    pub(super) fn run(&mut self, statement: &Statement, scope: ScopeId) -> Outcome<Flow> {
        self.line = statement.line;
        self.nested(|machine| machine.run_kind(&statement.kind, scope))
    }

    fn run_kind(&mut self, kind: &StatementKind, scope: ScopeId) -> Outcome<Flow> {
        match kind {
            StatementKind::Expression(expression) => self.evaluate(expression, scope).map(|_| Flow::Next),
            StatementKind::Declare(scoping, declared) => self.declare_all(*scoping, declared, scope),
            StatementKind::Function(_) | StatementKind::Empty => Ok(Flow::Next),
            StatementKind::Return(None) => Ok(Flow::Return(Value::Undefined)),
            StatementKind::Return(Some(value)) => self.evaluate(value, scope).map(Flow::Return),
            StatementKind::Throw(value) => {
                let thrown = self.evaluate(value, scope)?;
                Err(Problem::Thrown(format!("setup() throws: {}", self.text_of(&thrown)?)))
            }
            StatementKind::If(condition, then, other) => match (self.evaluate(condition, scope)?.is_true(), other) {
                (true, _) => self.run(then, scope),
                (false, Some(other)) => self.run(other, scope),
                (false, None) => Ok(Flow::Next),
            },
            StatementKind::For(first, condition, step, body) => {
                self.for_loop((first.as_deref(), condition.as_ref(), step.as_ref()), body, scope)
            }
            StatementKind::ForEach(scoping, pattern, each, over, body) => {
                let over = self.evaluate(over, scope)?;
                self.for_each((*scoping, pattern), &over, *each, body, scope)
            }
            StatementKind::While(condition, body) => self.for_loop((None, Some(condition), None), body, scope),
            StatementKind::DoWhile(body, condition) => match self.run(body, scope)? {
                Flow::Next | Flow::Continue => self.for_loop((None, Some(condition), None), body, scope),
                Flow::Break => Ok(Flow::Next),
                Flow::Return(value) => Ok(Flow::Return(value)),
            },
            StatementKind::Switch(value, cases) => self.switch(value, cases, scope),
            StatementKind::Block(statements) => {
                let declares = statements.iter().any(declares_in_its_block);
                let scope = if declares { self.scope(scope, false)? } else { scope };
                self.hoist(statements, scope)?;
                self.hoist_out(statements, scope)?;
                self.run_all(statements, scope)
            }
            StatementKind::Break => Ok(Flow::Break),
            StatementKind::Continue => Ok(Flow::Continue),
        }
    }

    /// Runs the body of a function.
    pub(super) fn body(&mut self, statements: &[Statement], scope: ScopeId) -> Outcome<Flow> {
        self.hoist(statements, scope)?;
        self.run_all(statements, scope)
    }

    /// Runs statements until one does not go on to the next.
    fn run_all(&mut self, statements: &[Statement], scope: ScopeId) -> Outcome<Flow> {
        for statement in statements {
            match self.run(statement, scope)? {
                Flow::Next => {}
                flow @ (Flow::Break | Flow::Continue | Flow::Return(_)) => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn switch(&mut self, value: &Expression, cases: &[Case], scope: ScopeId) -> Outcome<Flow> {
        let value = self.evaluate(value, scope)?;
        let scope = self.scope(scope, false)?;
        for case in cases {
            self.hoist(&case.statements, scope)?;
            self.hoist_out(&case.statements, scope)?;
        }
        let Some(first) = self.chosen_case(&value, cases, scope)? else { return Ok(Flow::Next) };
        for case in &cases[first..] {
            match self.run_all(&case.statements, scope)? {
                Flow::Next => {}
                Flow::Break => break,
                flow @ (Flow::Continue | Flow::Return(_)) => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    /// The first case with this value, or else the default.
    fn chosen_case(&mut self, value: &Value, cases: &[Case], scope: ScopeId) -> Outcome<Option<usize>> {
        for (index, case) in cases.iter().enumerate() {
            let Some(expected) = &case.value else { continue };
            if self.evaluate(expected, scope)?.same(value) {
                return Ok(Some(index));
            }
        }
        Ok(cases.iter().position(|case| case.value.is_none()))
    }

    fn declare_all(
        &mut self,
        scoping: Scoping,
        declared: &[(Pattern, Option<Expression>)],
        scope: ScopeId,
    ) -> Outcome<Flow> {
        for (pattern, value) in declared {
            let value = match value {
                Some(value) => self.evaluate(value, scope)?,
                // The variable is there already, and may have a value.
                None if scoping == Scoping::Function => continue,
                None => Value::Undefined,
            };
            self.bind(pattern, value, scoping, scope)?;
        }
        Ok(Flow::Next)
    }

    fn for_loop(
        &mut self,
        (first, condition, step): (Option<&Statement>, Option<&Expression>, Option<&Expression>),
        body: &Statement,
        scope: ScopeId,
    ) -> Outcome<Flow> {
        let mut functions = self.heap.functions();
        let mut scope = self.scope(scope, false)?;
        if let Some(first) = first {
            self.run(first, scope)?;
            scope = self.scope_of_turn(scope, &mut functions)?;
        }
        loop {
            self.meter.step(1)?;
            if let Some(condition) = condition
                && !self.evaluate(condition, scope)?.is_true()
            {
                return Ok(Flow::Next);
            }
            match self.run(body, scope)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Ok(Flow::Next),
                Flow::Return(value) => return Ok(Flow::Return(value)),
            }
            scope = self.scope_of_turn(scope, &mut functions)?;
            if let Some(step) = step {
                self.evaluate(step, scope)?;
            }
        }
    }

    /// The scope of a loop's next turn. A function that was made since then keeps the former one.
    fn scope_of_turn(&mut self, scope: ScopeId, functions: &mut usize) -> Outcome<ScopeId> {
        let is_kept = self.heap.functions() > std::mem::replace(functions, self.heap.functions());
        let Some(parent) = self.heap.scope(scope).parent.filter(|_| is_kept) else { return Ok(scope) };
        let copy = self.scope(parent, false)?;
        for (name, value) in self.heap.scope(scope).names.clone() {
            self.declare(&name, value, copy)?;
        }
        Ok(copy)
    }

    fn next_element(&mut self, elements: &mut Elements) -> Outcome<Option<Value>> {
        match elements {
            Elements::Of(array, index) => {
                *index += 1;
                Ok(self.known_array(*array)?.get(*index - 1).cloned())
            }
            Elements::Copied(copied) => Ok(copied.next()),
        }
    }

    fn for_each(
        &mut self,
        (scoping, pattern): (Scoping, &Pattern),
        over: &Value,
        each: Each,
        body: &Statement,
        scope: ScopeId,
    ) -> Outcome<Flow> {
        let mut elements = match (each, over) {
            // A loop reaches the elements that it adds.
            (Each::Element, Value::Array(array)) => Elements::Of(*array, 0),
            (Each::Element, _) => Elements::Copied(self.iterate(over)?.into_iter()),
            (Each::Key, _) => Elements::Copied(self.keys(over)?.into_iter()),
        };
        while let Some(element) = self.next_element(&mut elements)? {
            let scope = self.scope(scope, false)?;
            self.bind(pattern, element, scoping, scope)?;
            match self.run(body, scope)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => break,
                Flow::Return(value) => return Ok(Flow::Return(value)),
            }
        }
        Ok(Flow::Next)
    }
}

/// What a loop has yet to go over.
enum Elements {
    /// The elements of an array from an index on.
    Of(ArrayId, usize),
    Copied(std::vec::IntoIter<Value>),
}

fn declares_in_its_block(statement: &Statement) -> bool {
    matches!(statement.kind, StatementKind::Declare(Scoping::Block, _) | StatementKind::Function(_))
}
