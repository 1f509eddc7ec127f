//! Statements that are not understood: where they end.
//!
//! A statement that is skipped too far makes more names unknown. One that is left too early would
//! be run in parts, such as the body of an `if` without its condition. So an end is only where it
//! is certain.

use super::Parser;
use crate::bounds::MAX_DEPTH;
use crate::token::Kind;

/// Words after which a statement goes on in the next line.
const UNFINISHED: [&str; 22] = [
    "new",
    "typeof",
    "void",
    "delete",
    "return",
    "throw",
    "in",
    "of",
    "instanceof",
    "case",
    "else",
    "do",
    "await",
    "yield",
    "extends",
    "var",
    "let",
    "const",
    "function",
    "class",
    "import",
    "from",
];

impl Parser<'_> {
    /// Skips a statement that was parsed in vain up to the token at `read`, so that none is read
    /// twice.
    pub(super) fn skip_statement(&mut self, read: usize) {
        self.skip_one(0);
        while self.at <= read && !self.is_at_end() {
            self.skip_simple();
        }
    }

    fn skip_one(&mut self, depth: u32) {
        if depth == MAX_DEPTH {
            self.at = self.source.tokens.len() - 1;
            return;
        }
        match self.peek().clone() {
            Kind::Punctuator("{") => self.skip_group("{"),
            Kind::Word(_) if *self.peek_second() == Kind::Punctuator(":") => {
                self.at += 2;
                self.skip_one(depth + 1);
            }
            Kind::Word(word) => self.skip_keyword(&word, depth),
            Kind::Punctuator(_) | Kind::Number(_) | Kind::Text(_) | Kind::Template(..) | Kind::Regex => {
                self.skip_simple();
            }
            Kind::End => {}
        }
    }

    fn skip_keyword(&mut self, word: &str, depth: u32) {
        match word {
            "if" => self.skip_if(depth),
            "for" | "while" | "with" => {
                self.at += 1;
                self.take_word("await");
                self.skip_group("(");
                self.skip_one(depth + 1);
            }
            "do" => {
                self.at += 1;
                self.skip_one(depth + 1);
                self.take_word("while");
                self.skip_group("(");
                self.take_punctuator(";");
            }
            "try" => self.skip_try(),
            "switch" => {
                self.at += 1;
                self.skip_group("(");
                self.skip_group("{");
            }
            "export" => {
                self.at += 1;
                self.take_word("default");
                self.skip_one(depth + 1);
            }
            "class" | "function" => self.skip_declaration(),
            "async" if matches!(self.peek_second(), Kind::Word(second) if **second == *"function") => {
                self.skip_declaration();
            }
            _ => self.skip_simple(),
        }
    }

    fn skip_if(&mut self, depth: u32) {
        while self.take_word("if") {
            self.skip_group("(");
            self.skip_one(depth + 1);
            if !self.take_word("else") {
                return;
            }
        }
        self.skip_one(depth + 1);
    }

    fn skip_try(&mut self) {
        self.at += 1;
        self.skip_group("{");
        if self.take_word("catch") {
            self.skip_group("(");
            self.skip_group("{");
        }
        if self.take_word("finally") {
            self.skip_group("{");
        }
    }

    /// Skips a class or a function, whose braces end it.
    fn skip_declaration(&mut self) {
        while !self.is_at_end() && !self.is_punctuator("{") {
            self.skip_token();
        }
        self.skip_group("{");
    }

    /// Skips an expression or a declaration of variables.
    fn skip_simple(&mut self) {
        while !self.is_at_end() {
            self.skip_token();
            let last = &self.source.tokens[self.at - 1].kind;
            if *last == Kind::Punctuator(";") || !is_unfinished(last) && self.begins_statement() {
                return;
            }
        }
    }

    /// Skips the brackets that begin here, or one token.
    fn skip_token(&mut self) {
        match self.peek() {
            Kind::Punctuator("(" | "[" | "{") => self.at = self.source.partner(self.at) + 1,
            Kind::Punctuator(_)
            | Kind::Word(_)
            | Kind::Number(_)
            | Kind::Text(_)
            | Kind::Template(..)
            | Kind::Regex
            | Kind::End => self.at += 1,
        }
    }

    fn skip_group(&mut self, bracket: &str) {
        if self.is_punctuator(bracket) {
            self.skip_token();
        }
    }

    fn begins_statement(&self) -> bool {
        let is_word = matches!(self.peek(), Kind::Word(word) if !matches!(&**word, "in" | "of" | "instanceof"));
        is_word && self.token().first
    }
}

/// Whether a statement goes on behind this token.
fn is_unfinished(last: &Kind) -> bool {
    match last {
        Kind::Punctuator(punctuator) => !matches!(*punctuator, ")" | "]" | "}" | "++" | "--"),
        Kind::Word(word) => UNFINISHED.contains(&&**word),
        Kind::Number(_) | Kind::Text(_) | Kind::Template(..) | Kind::Regex | Kind::End => false,
    }
}
