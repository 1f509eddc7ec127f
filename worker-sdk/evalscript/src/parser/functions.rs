//! Functions, whose bodies are parsed later.

use super::variables::variables;
use super::{Parsed, Parser};
use crate::syntax::{Body, Expression, Function, Parameters, ParsedFunction, Pattern};
use crate::token::{Kind, Tokens};
use std::cell::OnceCell;
use std::rc::Rc;

/// Parses the parameters and the body of a function.
pub(crate) fn parse_function(function: &Function) -> Parsed<ParsedFunction> {
    let parameters = match &function.parameters {
        Parameters::One(name) => Pattern::Array(vec![Some(Pattern::Target(Expression::Name(name.clone())))], None),
        Parameters::List(source, open) => Parser::at(source, *open).parameters()?,
    };
    let statements = match &function.body {
        Body::Expression(_) => Vec::new(),
        Body::Block(source, open) => Parser::at(source, *open).block()?,
    };
    let variables = variables(&statements);
    Ok(ParsedFunction { parameters, statements, variables })
}

impl Parser<'_> {
    /// Parses a function from the word `function` on.
    pub(super) fn function_expression(&mut self) -> Parsed<Rc<Function>> {
        self.at += 1;
        if self.is_punctuator("*") {
            return Err(self.unsupported("a generator"));
        }
        let name = if self.is_punctuator("(") { Rc::from("") } else { self.declared_name()? };
        self.method(name)
    }

    /// Parses a method from the bracket of the parameters on.
    pub(super) fn method(&mut self, name: Rc<str>) -> Parsed<Rc<Function>> {
        let start = self.at;
        let parameters = self.parameter_list()?;
        let body = self.body()?;
        Ok(self.function(name, start, parameters, body))
    }

    /// `x => …` or `(…) => …`, if this is one.
    pub(super) fn arrow(&mut self) -> Parsed<Option<Expression>> {
        let start = self.at;
        let parameters = match (self.peek().clone(), self.peek_second()) {
            (Kind::Word(_), Kind::Punctuator("=>")) => Parameters::One(self.declared_name()?),
            (Kind::Punctuator("("), _) if self.is_arrow_behind_brackets() => self.parameter_list()?,
            _ => return Ok(None),
        };
        self.expect("=>")?;
        let body = if self.is_punctuator("{") { self.body()? } else { Body::Expression(self.assignment()?) };
        Ok(Some(Expression::Function(self.function(Rc::from(""), start, parameters, body))))
    }

    /// The function that ends here.
    fn function(&self, name: Rc<str>, start: usize, parameters: Parameters, body: Body) -> Rc<Function> {
        let tokens = Tokens { source: self.source.clone(), range: start..self.at };
        Rc::new(Function { name, parameters, body, tokens, parsed: OnceCell::new() })
    }

    fn is_arrow_behind_brackets(&self) -> bool {
        let behind = self.source.tokens.get(self.source.partner(self.at) + 1);
        behind.is_some_and(|token| token.kind == Kind::Punctuator("=>"))
    }

    fn parameter_list(&mut self) -> Parsed<Parameters> {
        let open = self.unread("(")?;
        Ok(Parameters::List(self.source.clone(), open))
    }

    fn body(&mut self) -> Parsed<Body> {
        let open = self.unread("{")?;
        Ok(Body::Block(self.source.clone(), open))
    }

    /// Skips the brackets that begin here, and returns their position.
    fn unread(&mut self, bracket: &str) -> Parsed<usize> {
        if !self.is_punctuator(bracket) {
            return Err(self.expected(&format!("`{bracket}`")));
        }
        let open = self.at;
        self.at = self.source.partner(open) + 1;
        Ok(open)
    }
}
