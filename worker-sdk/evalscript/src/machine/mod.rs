//! Evaluates a script.

mod calls;
mod expressions;
mod json;
mod members;
mod memory;
mod operators;
mod patterns;
mod statements;

use crate::builtins;
use crate::error::{Problem, ScriptError};
use crate::meter::Meter;
use crate::parser;
use crate::syntax::Statement;
use crate::token::Source;
use crate::value::{Heap, ScopeId, Value};

/// The result of an evaluation.
pub(crate) type Outcome<T = Value> = Result<T, Problem>;

/// A script and its state.
pub(crate) struct Machine {
    statements: Vec<Statement>,
    heap: Heap,
    meter: Meter,
    /// The line of the present evaluation.
    line: u32,
    /// The first top-level statement that was not understood.
    skipped: Option<ScriptError>,
}

impl Machine {
    pub(crate) fn new(source: Source) -> Self {
        let (statements, skipped) = parser::script(&source);
        Machine { statements, heap: Heap::default(), meter: Meter::default(), line: 1, skipped }
    }

    /// The line in which the evaluation ended.
    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    /// The result of `setup()`.
    pub(crate) fn setup(&mut self) -> Outcome<serde_json::Value> {
        let global = self.heap.add_scope(None, true);
        let statements = std::mem::take(&mut self.statements);
        self.hoist(&statements, global)?;
        for statement in &statements {
            self.try_statement(statement, global)?;
        }
        let setup = self.find("setup", global)?.ok_or(Problem::NoSetup)?;
        let answer = self.call(&setup, Vec::new())?;
        self.json(&answer)
    }

    /// Runs a top-level statement. It may fail as long as `setup()` does not need it.
    fn try_statement(&mut self, statement: &Statement, global: ScopeId) -> Outcome<()> {
        match self.run(statement, global) {
            Err(problem) if problem.is_final() => Err(problem),
            Err(problem) => {
                let line = self.line;
                self.skipped.get_or_insert(ScriptError { line, problem });
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// The value of a name.
    fn named(&mut self, name: &str, scope: ScopeId) -> Outcome {
        if let Some(value) = self.find(name, scope)? {
            return Ok(value);
        }
        builtins::global(name).ok_or_else(|| self.not_defined(name))
    }

    fn not_defined(&self, name: &str) -> Problem {
        let why = self.skipped.as_ref().map_or(String::new(), |error| format!(" (skipped: {error})"));
        Problem::thrown(format!("`{name}` is not defined{why}"))
    }

    /// The result of `evaluate`, one level deeper.
    fn nested<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        self.meter.enter()?;
        let outcome = self.meter.step(1).and_then(|()| evaluate(self));
        self.meter.leave();
        outcome
    }
}
