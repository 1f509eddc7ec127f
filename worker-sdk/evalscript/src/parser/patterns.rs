//! Patterns: parameters and declarations.

use super::{Parsed, Parser};
use crate::syntax::{Expression, Pattern};
use crate::token::Kind;
use std::rc::Rc;

impl Parser<'_> {
    /// The parameters of the function whose bracket is next.
    pub(super) fn parameters(&mut self) -> Parsed<Pattern> {
        self.expect("(")?;
        self.elements(")")
    }

    pub(super) fn pattern(&mut self) -> Parsed<Pattern> {
        if self.take_punctuator("[") {
            self.elements("]")
        } else if self.take_punctuator("{") {
            self.properties()
        } else {
            self.declared_name().map(Expression::Name).map(Pattern::Target)
        }
    }

    fn elements(&mut self, close: &str) -> Parsed<Pattern> {
        let (mut elements, mut rest) = (Vec::new(), None);
        while !self.take_punctuator(close) {
            if self.is_punctuator(",") {
                elements.push(None);
            } else if self.take_punctuator("...") {
                rest = Some(Box::new(self.nested(Self::pattern)?));
            } else {
                elements.push(Some(self.nested(Self::with_default)?));
            }
            self.separator(close)?;
        }
        Ok(Pattern::Array(elements, rest))
    }

    fn properties(&mut self) -> Parsed<Pattern> {
        let (mut properties, mut rest) = (Vec::new(), None);
        while !self.take_punctuator("}") {
            if self.take_punctuator("...") {
                rest = Some(Box::new(self.nested(Self::pattern)?));
            } else {
                properties.push(self.property_pattern()?);
            }
            self.separator("}")?;
        }
        Ok(Pattern::Object(properties, rest))
    }

    fn property_pattern(&mut self) -> Parsed<(Rc<str>, Pattern)> {
        let (Kind::Word(key) | Kind::Text(key)) = self.peek().clone() else { return Err(self.expected("a name")) };
        if *self.peek_second() != Kind::Punctuator(":") {
            return Ok((key, self.nested(Self::with_default)?));
        }
        self.at += 2;
        Ok((key, self.nested(Self::with_default)?))
    }

    fn with_default(&mut self) -> Parsed<Pattern> {
        let pattern = self.pattern()?;
        if !self.take_punctuator("=") {
            return Ok(pattern);
        }
        let value = self.assignment()?;
        Ok(Pattern::Default(Box::new(pattern), Box::new(value)))
    }

    /// The comma between the parts of a list that ends with `close`.
    pub(super) fn separator(&mut self, close: &str) -> Parsed<()> {
        if self.is_punctuator(close) || self.take_punctuator(",") {
            Ok(())
        } else {
            Err(self.expected(&format!("`,` or `{close}`")))
        }
    }
}
