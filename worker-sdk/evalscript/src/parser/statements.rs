//! Statements.

use super::{Parsed, Parser};
use crate::syntax::{Case, Each, Expression, Pattern, Scoping, Statement, StatementKind};
use crate::token::Kind;

/// Words that begin a statement which this engine does not understand.
const UNSUPPORTED: [&str; 8] = ["class", "try", "import", "export", "async", "with", "debugger", "yield"];

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Parsed<Statement> {
        let line = self.token().line;
        let kind = self.nested(Self::kind)?;
        Ok(Statement { line, kind })
    }

    /// The statements up to the end of the block whose brace is next.
    pub(super) fn block(&mut self) -> Parsed<Vec<Statement>> {
        self.expect("{")?;
        let mut statements = Vec::new();
        while !self.take_punctuator("}") {
            statements.push(self.statement()?);
        }
        Ok(statements)
    }

    fn kind(&mut self) -> Parsed<StatementKind> {
        match self.peek().clone() {
            Kind::Punctuator("{") => self.block().map(StatementKind::Block),
            Kind::Punctuator(";") => {
                self.at += 1;
                Ok(StatementKind::Empty)
            }
            Kind::Word(word) if *self.peek_second() == Kind::Punctuator(":") => {
                Err(self.unsupported(&format!("the label `{word}`")))
            }
            Kind::Word(word) => self.keyword_statement(&word),
            Kind::Punctuator(_) | Kind::Number(_) | Kind::Text(_) | Kind::Template(..) | Kind::Regex | Kind::End => {
                self.simple(|parser| parser.expression().map(StatementKind::Expression))
            }
        }
    }

    fn keyword_statement(&mut self, word: &str) -> Parsed<StatementKind> {
        match word {
            "var" | "let" | "const" => self.simple(|parser| {
                let scoping = parser.scoping();
                parser.declarators(scoping)
            }),
            "function" => self.function_expression().map(StatementKind::Function),
            "return" => self.simple(Self::returned),
            "throw" => self.simple(|parser| {
                parser.at += 1;
                parser.expression().map(StatementKind::Throw)
            }),
            "if" => self.condition(),
            "for" => self.for_loop(),
            "while" => self.while_loop(),
            "do" => self.do_while(),
            "switch" => self.switch(),
            "break" | "continue" => self.simple(|parser| {
                parser.at += 1;
                Ok(if word == "break" { StatementKind::Break } else { StatementKind::Continue })
            }),
            _ if UNSUPPORTED.contains(&word) => Err(self.unsupported(&format!("`{word}`"))),
            _ => self.simple(|parser| parser.expression().map(StatementKind::Expression)),
        }
    }

    /// A statement that ends with a semicolon, which may be left out.
    fn simple(&mut self, read: impl FnOnce(&mut Self) -> Parsed<StatementKind>) -> Parsed<StatementKind> {
        let kind = read(self)?;
        let ends = self.take_punctuator(";") || self.is_punctuator("}") || self.token().first;
        if ends { Ok(kind) } else { Err(self.expected("`;`")) }
    }

    fn returned(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let nothing = self.is_punctuator(";") || self.is_punctuator("}") || self.token().first;
        if nothing {
            Ok(StatementKind::Return(None))
        } else {
            self.expression().map(|value| StatementKind::Return(Some(value)))
        }
    }

    /// Takes the declaring word, if one is next.
    fn scoping(&mut self) -> Scoping {
        if self.take_word("var") {
            Scoping::Function
        } else if self.take_word("let") || self.take_word("const") {
            Scoping::Block
        } else {
            Scoping::Existing
        }
    }

    fn declarators(&mut self, scoping: Scoping) -> Parsed<StatementKind> {
        let mut declared = Vec::new();
        loop {
            let pattern = self.binding()?;
            let value = if self.take_punctuator("=") { Some(self.assignment()?) } else { None };
            declared.push((pattern, value));
            if !self.take_punctuator(",") {
                return Ok(StatementKind::Declare(scoping, declared));
            }
        }
    }

    fn in_brackets(&mut self) -> Parsed<Expression> {
        self.expect("(")?;
        let expression = self.expression()?;
        self.expect(")")?;
        Ok(expression)
    }

    fn condition(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let condition = self.in_brackets()?;
        let then = Box::new(self.statement()?);
        let other = if self.take_word("else") { Some(Box::new(self.statement()?)) } else { None };
        Ok(StatementKind::If(condition, then, other))
    }

    fn while_loop(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let condition = self.in_brackets()?;
        Ok(StatementKind::While(condition, Box::new(self.statement()?)))
    }

    fn do_while(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let body = Box::new(self.statement()?);
        if !self.take_word("while") {
            return Err(self.expected("`while`"));
        }
        let condition = self.in_brackets()?;
        self.take_punctuator(";");
        Ok(StatementKind::DoWhile(body, condition))
    }

    fn switch(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        let value = self.in_brackets()?;
        self.expect("{")?;
        let mut cases = Vec::new();
        while !self.take_punctuator("}") {
            cases.push(self.case()?);
        }
        Ok(StatementKind::Switch(value, cases))
    }

    fn case(&mut self) -> Parsed<Case> {
        let value = match (self.take_word("case"), self.take_word("default")) {
            (true, _) => Some(self.expression()?),
            (false, true) => None,
            (false, false) => return Err(self.expected("`case`")),
        };
        self.expect(":")?;
        let mut statements = Vec::new();
        while !self.begins_case() && !self.is_punctuator("}") {
            statements.push(self.statement()?);
        }
        Ok(Case { value, statements })
    }

    fn begins_case(&self) -> bool {
        matches!(self.peek(), Kind::Word(word) if matches!(&**word, "case" | "default"))
    }

    fn for_loop(&mut self) -> Parsed<StatementKind> {
        self.at += 1;
        self.expect("(")?;
        let (line, start) = (self.token().line, self.at);
        let scoping = self.scoping();
        if let Some(each) = self.for_each(scoping)? {
            return Ok(each);
        }
        self.at = start;
        let first = match self.scoping() {
            _ if self.is_punctuator(";") => None,
            Scoping::Existing => Some(self.expression().map(StatementKind::Expression)?),
            scoping @ (Scoping::Function | Scoping::Block) => Some(self.declarators(scoping)?),
        };
        let first = first.map(|kind| Box::new(Statement { line, kind }));
        self.expect(";")?;
        let condition = if self.is_punctuator(";") { None } else { Some(self.expression()?) };
        self.expect(";")?;
        let step = if self.is_punctuator(")") { None } else { Some(self.expression()?) };
        self.expect(")")?;
        Ok(StatementKind::For(first, condition, step, Box::new(self.statement()?)))
    }

    /// A loop over elements or keys, if this is one.
    fn for_each(&mut self, scoping: Scoping) -> Parsed<Option<StatementKind>> {
        let Ok(pattern) = self.binding() else { return Ok(None) };
        let each = if self.take_word("of") {
            Each::Element
        } else if self.take_word("in") {
            Each::Key
        } else {
            return Ok(None);
        };
        let over = self.expression()?;
        self.expect(")")?;
        let body = Box::new(self.statement()?);
        Ok(Some(StatementKind::ForEach(scoping, pattern, each, over, body)))
    }

    /// A pattern without a default value.
    fn binding(&mut self) -> Parsed<Pattern> {
        self.nested(Self::pattern)
    }
}
