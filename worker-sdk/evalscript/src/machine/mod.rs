//! Evaluates a script.

mod calls;
mod expressions;
mod json;
mod members;
mod memory;
mod operators;
mod patterns;
mod skipped;
mod statements;
mod unknown_changes;

use crate::builtins;
use crate::error::{Problem, ScriptError};
use crate::meter::Meter;
use crate::parser;
use crate::syntax::{Statement, TopLevel};
use crate::token::Source;
use crate::value::{Heap, ScopeId, Value};
use unknown_changes::UnknownChanges;

/// The result of an evaluation.
pub(crate) type Outcome<T = Value> = Result<T, Problem>;

/// A script and its state.
pub(crate) struct Machine {
    script: Vec<TopLevel>,
    heap: Heap,
    meter: Meter,
    /// The line of the present evaluation.
    line: u32,
    /// What statements that were not understood may have changed.
    changes: UnknownChanges,
}

impl Machine {
    pub(crate) fn new(source: &Source) -> Self {
        let script = parser::script(source);
        Machine { script, heap: Heap::default(), meter: Meter::default(), line: 1, changes: UnknownChanges::default() }
    }

    /// The line in which the evaluation ended.
    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    /// The result of `setup()`.
    pub(crate) fn setup(&mut self) -> Outcome<serde_json::Value> {
        let global = self.heap.add_scope(None, true);
        let script = std::mem::take(&mut self.script);
        let understood = script.iter().filter_map(|top| top.parsed.as_ref().ok());
        let statements: Vec<&Statement> = understood.collect();
        self.hoist_variables(&parser::variables(statements.iter().copied()), global)?;
        self.hoist(statements, global)?;
        for top in &script {
            self.run_at_top(top, global)?;
        }
        if self.heap.scope(global).names.iter().all(|(name, _)| **name != *"setup") {
            return Err(Problem::NoSetup);
        }
        let setup = self.named("setup", global)?;
        let answer = self.call(&setup, Vec::new())?;
        self.json(&answer)
    }

    /// Runs a top-level statement. It may fail as long as `setup()` needs nothing that it changes.
    fn run_at_top(&mut self, top: &TopLevel, global: ScopeId) -> Outcome<()> {
        let error = match &top.parsed {
            Err(error) => error.clone(),
            Ok(statement) => match self.run(statement, global) {
                Ok(_) => return Ok(()),
                Err(problem) if problem.is_final() => return Err(problem),
                Err(problem) => ScriptError { line: self.line, problem },
            },
        };
        self.pass_over(&top.tokens, error, global)
    }

    /// The value of a name.
    fn named(&mut self, name: &str, scope: ScopeId) -> Outcome {
        if let Some(value) = self.find(name, scope)? {
            return Ok(value);
        }
        builtins::global(name).ok_or_else(|| self.not_defined(name))
    }

    fn not_defined(&self, name: &str) -> Problem {
        Problem::thrown(format!("`{name}` is not defined{}", self.changes.first_reason()))
    }

    /// The result of `evaluate`, one level deeper.
    fn nested<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        self.meter.enter()?;
        let outcome = self.meter.step(1).and_then(|()| evaluate(self));
        self.meter.leave();
        outcome
    }
}
