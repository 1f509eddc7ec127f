//! Statements.

use super::{Parsed, Parser};
use crate::syntax::{Each, Expression, Pattern, Scoping, Statement, What};
use crate::token::Kind;

/// Words that begin a statement which this engine does not understand.
const UNSUPPORTED: [&str; 9] = ["class", "switch", "try", "import", "export", "async", "with", "debugger", "yield"];

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Parsed<Statement> {
        let line = self.token().line;
        let what = self.nested(Self::what)?;
        Ok(Statement { line, what })
    }

    /// The statements up to the end of the block whose brace is next.
    pub(super) fn block(&mut self) -> Parsed<Vec<Statement>> {
        self.expect("{")?;
        let mut statements = Vec::new();
        while !self.mark("}") {
            statements.push(self.statement()?);
        }
        Ok(statements)
    }

    fn what(&mut self) -> Parsed<What> {
        match self.peek().clone() {
            Kind::Mark("{") => self.block().map(What::Block),
            Kind::Mark(";") => {
                self.at += 1;
                Ok(What::Empty)
            }
            Kind::Word(word) if *self.peek_second() == Kind::Mark(":") => {
                Err(self.unsupported(&format!("the label `{word}`")))
            }
            Kind::Word(word) => self.worded(&word),
            Kind::Mark(_) | Kind::Number(_) | Kind::Text(_) | Kind::Template(..) | Kind::Regex | Kind::End => {
                self.simple(|parser| parser.expression().map(What::Expression))
            }
        }
    }

    fn worded(&mut self, word: &str) -> Parsed<What> {
        match word {
            "var" | "let" | "const" => self.simple(|parser| {
                let scoping = parser.scoping();
                parser.declarators(scoping)
            }),
            "function" => self.function_expression().map(What::Function),
            "return" => self.simple(Self::returned),
            "throw" => self.simple(|parser| {
                parser.at += 1;
                parser.expression().map(What::Throw)
            }),
            "if" => self.condition(),
            "for" => self.for_loop(),
            "while" => self.while_loop(),
            "do" => self.do_while(),
            "break" | "continue" => self.simple(|parser| {
                parser.at += 1;
                Ok(if word == "break" { What::Break } else { What::Continue })
            }),
            _ if UNSUPPORTED.contains(&word) => Err(self.unsupported(&format!("`{word}`"))),
            _ => self.simple(|parser| parser.expression().map(What::Expression)),
        }
    }

    /// A statement that ends with a semicolon, which may be left out.
    fn simple(&mut self, read: impl FnOnce(&mut Self) -> Parsed<What>) -> Parsed<What> {
        let what = read(self)?;
        let ends = self.mark(";") || self.is_mark("}") || self.token().first;
        if ends { Ok(what) } else { Err(self.expected("`;`")) }
    }

    fn returned(&mut self) -> Parsed<What> {
        self.at += 1;
        let nothing = self.is_mark(";") || self.is_mark("}") || self.token().first;
        if nothing { Ok(What::Return(None)) } else { self.expression().map(|value| What::Return(Some(value))) }
    }

    /// Takes the declaring word, if one is next.
    fn scoping(&mut self) -> Scoping {
        if self.word("var") {
            Scoping::Function
        } else if self.word("let") || self.word("const") {
            Scoping::Block
        } else {
            Scoping::Existing
        }
    }

    fn declarators(&mut self, scoping: Scoping) -> Parsed<What> {
        let mut declared = Vec::new();
        loop {
            let pattern = self.binding()?;
            let value = if self.mark("=") { Some(self.assignment()?) } else { None };
            declared.push((pattern, value));
            if !self.mark(",") {
                return Ok(What::Declare(scoping, declared));
            }
        }
    }

    fn in_brackets(&mut self) -> Parsed<Expression> {
        self.expect("(")?;
        let expression = self.expression()?;
        self.expect(")")?;
        Ok(expression)
    }

    fn condition(&mut self) -> Parsed<What> {
        self.at += 1;
        let condition = self.in_brackets()?;
        let then = Box::new(self.statement()?);
        let other = if self.word("else") { Some(Box::new(self.statement()?)) } else { None };
        Ok(What::If(condition, then, other))
    }

    fn while_loop(&mut self) -> Parsed<What> {
        self.at += 1;
        let condition = self.in_brackets()?;
        Ok(What::While(condition, Box::new(self.statement()?)))
    }

    fn do_while(&mut self) -> Parsed<What> {
        self.at += 1;
        let body = Box::new(self.statement()?);
        if !self.word("while") {
            return Err(self.expected("`while`"));
        }
        let condition = self.in_brackets()?;
        self.mark(";");
        Ok(What::DoWhile(body, condition))
    }

    fn for_loop(&mut self) -> Parsed<What> {
        self.at += 1;
        self.expect("(")?;
        let (line, start) = (self.token().line, self.at);
        let scoping = self.scoping();
        if let Some(each) = self.for_each(scoping)? {
            return Ok(each);
        }
        self.at = start;
        let first = match self.scoping() {
            _ if self.is_mark(";") => None,
            Scoping::Existing => Some(self.expression().map(What::Expression)?),
            scoping @ (Scoping::Function | Scoping::Block) => Some(self.declarators(scoping)?),
        };
        let first = first.map(|what| Box::new(Statement { line, what }));
        self.expect(";")?;
        let condition = if self.is_mark(";") { None } else { Some(self.expression()?) };
        self.expect(";")?;
        let step = if self.is_mark(")") { None } else { Some(self.expression()?) };
        self.expect(")")?;
        Ok(What::For(first, condition, step, Box::new(self.statement()?)))
    }

    /// A loop over elements or keys, if this is one.
    fn for_each(&mut self, scoping: Scoping) -> Parsed<Option<What>> {
        let Ok(pattern) = self.binding() else { return Ok(None) };
        let each = if self.word("of") {
            Each::Element
        } else if self.word("in") {
            Each::Key
        } else {
            return Ok(None);
        };
        let over = self.expression()?;
        self.expect(")")?;
        let body = Box::new(self.statement()?);
        Ok(Some(What::ForEach(scoping, pattern, each, over, body)))
    }

    /// A pattern without a default value.
    fn binding(&mut self) -> Parsed<Pattern> {
        self.nested(Self::pattern)
    }
}
