//! What `var` declares. Such a variable is there before its line, for the whole function.

use crate::syntax::{Expression, Pattern, Scoping, Statement, StatementKind};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The names that `var` declares in some statements, and in the statements inside them.
pub(crate) fn variables<'a>(statements: impl IntoIterator<Item = &'a Statement>) -> BTreeSet<Rc<str>> {
    let mut names = BTreeSet::new();
    for statement in statements {
        add(statement, &mut names);
    }
    names
}

fn add(statement: &Statement, names: &mut BTreeSet<Rc<str>>) {
    match &statement.kind {
        StatementKind::Declare(Scoping::Function, declared) => {
            declared.iter().for_each(|(pattern, _)| add_pattern(pattern, names));
        }
        StatementKind::If(_, then, other) => {
            add(then, names);
            other.iter().for_each(|other| add(other, names));
        }
        StatementKind::For(first, _, _, body) => {
            first.iter().for_each(|first| add(first, names));
            add(body, names);
        }
        StatementKind::ForEach(scoping, pattern, _, _, body) => {
            if *scoping == Scoping::Function {
                add_pattern(pattern, names);
            }
            add(body, names);
        }
        StatementKind::While(_, body) | StatementKind::DoWhile(body, _) => add(body, names),
        StatementKind::Switch(_, cases) => {
            cases.iter().flat_map(|case| &case.statements).for_each(|statement| add(statement, names));
        }
        StatementKind::Block(statements) => statements.iter().for_each(|statement| add(statement, names)),
        StatementKind::Declare(Scoping::Block | Scoping::Existing, _)
        | StatementKind::Expression(_)
        | StatementKind::Function(_)
        | StatementKind::Return(_)
        | StatementKind::Throw(_)
        | StatementKind::Break
        | StatementKind::Continue
        | StatementKind::Empty => {}
    }
}

fn add_pattern(pattern: &Pattern, names: &mut BTreeSet<Rc<str>>) {
    match pattern {
        Pattern::Target(Expression::Name(name)) => {
            names.insert(name.clone());
        }
        Pattern::Target(_) => {}
        Pattern::Default(pattern, _) => add_pattern(pattern, names),
        Pattern::Array(elements, rest) => {
            elements.iter().flatten().for_each(|element| add_pattern(element, names));
            rest.iter().for_each(|rest| add_pattern(rest, names));
        }
        Pattern::Object(properties, rest) => {
            properties.iter().for_each(|(_, pattern)| add_pattern(pattern, names));
            rest.iter().for_each(|rest| add_pattern(rest, names));
        }
    }
}
