//! From tokens to statements. Function bodies are parsed on the first call.

mod expressions;
mod functions;
mod mentions;
mod patterns;
mod skipping;
mod statements;
mod variables;

use crate::bounds::MAX_DEPTH;
use crate::error::{Problem, ScriptError};
use crate::syntax::TopLevel;
use crate::token::{Kind, Source, Token, Tokens};
use std::rc::Rc;

pub(crate) use functions::parse_function;
pub(crate) use mentions::{Mentions, declared_for_later};
pub(crate) use variables::variables;

type Parsed<T> = Result<T, ScriptError>;

/// The statements at the top of a script, in their order.
pub(crate) fn script(source: &Source) -> Vec<TopLevel> {
    let mut parser = Parser::at(source, 0);
    let mut statements = Vec::new();
    while !parser.is_at_end() {
        let start = parser.at;
        let parsed = parser.statement();
        if parsed.is_err() {
            let failed = parser.at;
            parser = Parser::at(source, start);
            parser.skip_statement(failed);
        }
        statements.push(TopLevel { tokens: Tokens { source: source.clone(), range: start..parser.at }, parsed });
    }
    statements
}

/// Parses one source from a position on.
struct Parser<'a> {
    source: &'a Source,
    at: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn at(source: &'a Source, at: usize) -> Self {
        Parser { source, at, depth: 0 }
    }

    fn token(&self) -> &Token {
        &self.source.tokens[self.at.min(self.source.tokens.len() - 1)]
    }

    fn peek(&self) -> &Kind {
        &self.token().kind
    }

    fn peek_second(&self) -> &Kind {
        self.source.tokens.get(self.at + 1).map_or(&Kind::End, |token| &token.kind)
    }

    fn is_at_end(&self) -> bool {
        *self.peek() == Kind::End
    }

    fn is_punctuator(&self, punctuator: &str) -> bool {
        matches!(self.peek(), Kind::Punctuator(found) if *found == punctuator)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Kind::Word(found) if **found == *word)
    }

    /// Takes this punctuation if it is next.
    fn take_punctuator(&mut self, punctuator: &str) -> bool {
        let found = self.is_punctuator(punctuator);
        self.at += usize::from(found);
        found
    }

    /// Takes this word if it is next.
    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, punctuator: &str) -> Parsed<()> {
        if self.take_punctuator(punctuator) { Ok(()) } else { Err(self.expected(&format!("`{punctuator}`"))) }
    }

    fn name(&mut self) -> Parsed<Rc<str>> {
        let Kind::Word(name) = self.peek().clone() else { return Err(self.expected("a name")) };
        self.at += 1;
        Ok(name)
    }

    /// A name that a script declares.
    fn declared_name(&mut self) -> Parsed<Rc<str>> {
        let name = self.name()?;
        match &*name {
            "undefined" | "NaN" | "Infinity" => Err(self.unsupported(&format!("`{name}` as a name"))),
            _ => Ok(name),
        }
    }

    fn expected(&self, what: &str) -> ScriptError {
        let found = match self.peek() {
            Kind::Word(word) => format!("`{word}`"),
            Kind::Punctuator(punctuator) => format!("`{punctuator}`"),
            Kind::Number(_) => "a number".to_owned(),
            Kind::Text(_) | Kind::Template(..) => "a string".to_owned(),
            Kind::Regex => "a regular expression".to_owned(),
            Kind::End => "the end".to_owned(),
        };
        self.wrong(Problem::Syntax(format!("{what} was expected instead of {found}")))
    }

    fn unsupported(&self, what: &str) -> ScriptError {
        self.wrong(Problem::unsupported(what))
    }

    fn wrong(&self, problem: Problem) -> ScriptError {
        ScriptError { line: self.token().line, problem }
    }

    /// The result of `read`, one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.bounded(self.depth)?;
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Bounds a chain of operators, which is a tree as deep as the chain is long.
    fn bounded(&self, length: u32) -> Parsed<()> {
        if length >= MAX_DEPTH { Err(self.wrong(Problem::TooDeep)) } else { Ok(()) }
    }
}
