//! The top level of a script: its declarations, and what may run before `setup()`.

use super::tokens::{Fallible, Tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Words by which code can change a name without mentioning it.
const REACHING: [&str; 8] =
    ["eval", "Function", "globalThis", "window", "self", "prototype", "__proto__", "getPrototypeOf"];

/// Where names of the top level are read as literals, and declared.
pub(super) type Mentions<'a> = BTreeMap<&'a str, BTreeSet<usize>>;

pub(super) struct Outline<'a> {
    tokens: &'a Tokens<'a>,
    /// The first declaration of each name with a value, and whether any of them is a function.
    declared: BTreeMap<&'a str, (usize, bool)>,
    /// The parameters and bodies of functions, which run only if the function is called.
    deferred: Vec<Range<usize>>,
}

impl<'a> Outline<'a> {
    pub(super) fn of(tokens: &'a Tokens<'a>) -> Self {
        let mut outline = Outline { tokens, declared: BTreeMap::new(), deferred: Vec::new() };
        let mut at = 0;
        while at < tokens.len() {
            at = match tokens.word(at) {
                "function" if tokens.begins_statement(at) => outline.function(at + 1),
                "const" | "let" | "var" if tokens.begins_statement(at) => outline.constants(at + 1),
                _ => tokens.next(at),
            };
        }
        outline
    }

    pub(super) fn declaration(&self, name: &str) -> Option<usize> {
        self.declared.get(name).map(|(at, _)| *at)
    }

    /// Notes `function name(…) {…}`.
    fn function(&mut self, name: usize) -> usize {
        let tokens = self.tokens;
        let body = tokens.next(name + 1);
        if tokens.word(name).is_empty() || !tokens.is(name + 1, "(") || !tokens.is(body, "{") {
            return name;
        }
        self.declared.entry(tokens.word(name)).or_insert((name, true)).1 = true;
        self.deferred.push(name + 1..tokens.next(body));
        tokens.next(body)
    }

    /// Notes `a = …, b = …`, up to a declaration without a name or a value. It does not matter if
    /// an assignment follows instead, in a statement of its own.
    fn constants(&mut self, mut name: usize) -> usize {
        let tokens = self.tokens;
        while !tokens.word(name).is_empty() && tokens.is(name + 1, "=") {
            self.declared.entry(tokens.word(name)).or_insert((name, false));
            name += 2;
            while !tokens.ends_expression(name) {
                name = tokens.next(name);
            }
            name += usize::from(tokens.is(name, ","));
        }
        name
    }

    /// The tokens that run in any case.
    fn top(&self) -> impl Iterator<Item = usize> {
        let begins = std::iter::once(0).chain(self.deferred.iter().map(|range| range.end));
        let ends = self.deferred.iter().map(|range| range.start).chain([self.tokens.len()]);
        begins.zip(ends).flat_map(|(begin, end)| begin..end)
    }

    /// Checks that code which runs before `setup()` mentions names only where they are read. If a
    /// function's name occurs outside of all functions, all functions may run.
    pub(super) fn check(mut self, read: &Mentions<'_>) -> Fallible<()> {
        let is_call = |at| self.declared.get(self.tokens.word(at)).is_some_and(|name| name.1 && name.0 != at);
        if self.top().any(is_call) {
            self.deferred.clear();
        }
        let is_change = |at: &usize| {
            let word = self.tokens.word(*at);
            let is_reaching = REACHING.contains(&word) || (word == "this" && !self.tokens.is(at + 1, "."));
            is_reaching || read.get(word).is_some_and(|places| !places.contains(at))
        };
        let Some(at) = self.top().find(is_change) else { return Ok(()) };
        self.tokens.refuse(at, &format!("`{}` may change what `setup` returns", self.tokens.word(at)))
    }
}
