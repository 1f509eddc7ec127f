//! What statements that were not understood may have changed.

use crate::error::{Problem, ScriptError};
use crate::token::Tokens;
use crate::value::{ArrayId, DateId, ObjectId, ScopeId};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Names, arrays and objects whose value is unknown, each with the statement that is the reason.
#[derive(Debug, Default)]
pub(super) struct UnknownChanges {
    reasons: Vec<ScriptError>,
    names: BTreeMap<ScopeId, BTreeMap<Rc<str>, Change>>,
    arrays: BTreeMap<ArrayId, usize>,
    objects: BTreeMap<ObjectId, usize>,
    dates: BTreeMap<DateId, usize>,
    /// The statement that may have changed what all values inherit.
    builtins: Option<usize>,
    /// Skipped classes and functions. Their code matters only if a skipped statement may run it.
    for_later: Vec<(Rc<str>, Tokens)>,
}

/// What may have happened to a name.
#[derive(Clone, Copy, Debug)]
struct Change {
    reason: usize,
    was_defined: bool,
}

impl UnknownChanges {
    /// Counts a statement as skipped. Changes that are marked next belong to it.
    pub(super) fn skip(&mut self, statement: ScriptError) {
        self.reasons.push(statement);
    }

    /// Keeps the code of a class or function for statements that may run it.
    pub(super) fn keep_for_later(&mut self, name: Rc<str>, tokens: Tokens) {
        self.for_later.push((name, tokens));
    }

    /// The code that is kept under a name, each with its number.
    pub(super) fn kept(&self, name: &str) -> impl Iterator<Item = (usize, &Tokens)> {
        let kept = self.for_later.iter().enumerate();
        kept.filter(move |(_, (known, _))| **known == *name).map(|(number, (_, tokens))| (number, tokens))
    }

    pub(super) fn mark_name(&mut self, scope: ScopeId, name: Rc<str>, was_defined: bool) {
        let change = Change { reason: self.reasons.len() - 1, was_defined };
        self.names.entry(scope).or_default().insert(name, change);
    }

    pub(super) fn mark_array(&mut self, array: ArrayId) {
        self.arrays.entry(array).or_insert(self.reasons.len() - 1);
    }

    pub(super) fn mark_object(&mut self, object: ObjectId) {
        self.objects.entry(object).or_insert(self.reasons.len() - 1);
    }

    pub(super) fn mark_date(&mut self, date: DateId) {
        self.dates.entry(date).or_insert(self.reasons.len() - 1);
    }

    /// Marks the methods and the globals of JavaScript, which a script can replace.
    pub(super) fn mark_builtins(&mut self) {
        self.builtins.get_or_insert(self.reasons.len() - 1);
    }

    pub(super) fn check_name(&self, scope: ScopeId, name: &str) -> Result<(), Problem> {
        let Some(change) = self.names.get(&scope).and_then(|names| names.get(name)) else { return Ok(()) };
        Err(if change.was_defined {
            self.unknown(&format!("`{name}` may have another value"), change.reason)
        } else {
            self.unknown(&format!("`{name}` is not defined"), change.reason)
        })
    }

    pub(super) fn check_array(&self, array: ArrayId) -> Result<(), Problem> {
        self.arrays.get(&array).map_or(Ok(()), |reason| Err(self.unknown("an array may have other elements", *reason)))
    }

    pub(super) fn check_object(&self, object: ObjectId) -> Result<(), Problem> {
        let changed = self.objects.get(&object);
        changed.map_or(Ok(()), |reason| Err(self.unknown("an object may have other properties", *reason)))
    }

    pub(super) fn check_date(&self, date: DateId) -> Result<(), Problem> {
        self.dates.get(&date).map_or(Ok(()), |reason| Err(self.unknown("a date may be another one", *reason)))
    }

    pub(super) fn check_builtins(&self) -> Result<(), Problem> {
        let changed = self.builtins;
        changed.map_or(Ok(()), |reason| Err(self.unknown("JavaScript's own methods may be others", reason)))
    }

    /// Forgets the change of a name that gets a known value. Returns whether there was one.
    pub(super) fn forget(&mut self, scope: ScopeId, name: &str) -> bool {
        self.names.get_mut(&scope).and_then(|names| names.remove(name)).is_some()
    }

    /// The first statement that was skipped, for error messages.
    pub(super) fn first_reason(&self) -> String {
        self.reasons.first().map_or(String::new(), |error| format!(" (skipped: {error})"))
    }

    fn unknown(&self, what: &str, reason: usize) -> Problem {
        Problem::Unknown(format!("{what} (skipped: {})", self.reasons[reason]))
    }
}
