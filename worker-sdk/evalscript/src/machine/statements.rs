//! Statements.

use super::{Machine, Outcome};
use crate::error::Problem;
use crate::syntax::{Each, Expression, Pattern, Scoping, Statement, StatementKind};
use crate::value::{ScopeId, Value};

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
            StatementKind::Block(statements) => {
                let declares = statements.iter().any(declares_in_its_block);
                let scope = if declares { self.scope(scope, false)? } else { scope };
                self.block(statements, scope)
            }
            StatementKind::Break => Ok(Flow::Break),
            StatementKind::Continue => Ok(Flow::Continue),
        }
    }

    /// Runs statements until one does not go on to the next.
    pub(super) fn block(&mut self, statements: &[Statement], scope: ScopeId) -> Outcome<Flow> {
        self.hoist(statements, scope)?;
        for statement in statements {
            match self.run(statement, scope)? {
                Flow::Next => {}
                flow @ (Flow::Break | Flow::Continue | Flow::Return(_)) => return Ok(flow),
            }
        }
        Ok(Flow::Next)
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
        let scope = self.scope(scope, false)?;
        if let Some(first) = first {
            self.run(first, scope)?;
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
            if let Some(step) = step {
                self.evaluate(step, scope)?;
            }
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
        let elements = match each {
            Each::Element => self.iterate(over)?,
            Each::Key => self.keys(over)?,
        };
        for element in elements {
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

fn declares_in_its_block(statement: &Statement) -> bool {
    matches!(statement.kind, StatementKind::Declare(Scoping::Block, _) | StatementKind::Function(_))
}
