//! From text to tokens.

use crate::bounds::MAX_DEPTH;
use crate::error::{Problem, ScriptError};
use crate::number;
use crate::token::{Kind, Source, Token};
use std::rc::Rc;

/// All punctuation, longer ones before their prefixes.
const PUNCTUATORS: [&str; 59] = [
    ">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??=", "=>", "==", "!=", "<=", ">=", "&&",
    "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>", "**", "{", "}", "(", ")",
    "[", "]", ";", ",", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "!", "~", "?", ":", ".", "=", "@", "#",
];

/// After these words a slash begins a regular expression.
const BEFORE_EXPRESSION: [&str; 8] = ["return", "typeof", "case", "in", "of", "void", "delete", "throw"];

/// The tokens of a script.
pub(crate) fn read(text: &str) -> Result<Source, ScriptError> {
    let mut lexer = Lexer { rest: text, line: 1, depth: 0 };
    let read = lexer.source(false);
    read.map_err(|(line, problem)| ScriptError { line, problem })
}

type Fallible<T> = Result<T, (u32, Problem)>;

struct Lexer<'a> {
    rest: &'a str,
    line: u32,
    /// How deep templates are nested.
    depth: u32,
}

impl Lexer<'_> {
    /// All tokens, or those up to the `}` that ends an expression inside a template.
    fn source(&mut self, inside: bool) -> Fallible<Source> {
        let mut tokens: Vec<Token> = Vec::new();
        let mut braces = 0_usize;
        loop {
            let first = self.skip_blank()? || tokens.is_empty();
            let line = self.line;
            let kind = self.kind(tokens.last())?;
            match &kind {
                Kind::Punctuator("{") => braces += 1,
                Kind::Punctuator("}") if inside && braces == 0 => break,
                Kind::Punctuator("}") => braces = braces.saturating_sub(1),
                Kind::End if inside => return Err(self.wrong("a template does not end")),
                Kind::End => break,
                Kind::Word(_)
                | Kind::Number(_)
                | Kind::Text(_)
                | Kind::Template(..)
                | Kind::Regex
                | Kind::Punctuator(_) => {}
            }
            tokens.push(Token { kind, line, first });
        }
        tokens.push(Token { kind: Kind::End, line: self.line, first: true });
        Source::new(tokens)
    }

    /// Skips blanks and comments, and returns whether a line ended.
    fn skip_blank(&mut self) -> Fallible<bool> {
        let before = self.line;
        loop {
            let blank =
                self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}').len();
            self.advance(blank);
            if self.rest.starts_with("//") {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.advance(end);
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/").ok_or_else(|| self.wrong("a comment does not end"))?;
                self.advance(end + 2);
            } else {
                return Ok(self.line != before);
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.matches('\n').count() as u32;
        self.rest = rest;
    }

    fn wrong(&self, what: &str) -> (u32, Problem) {
        (self.line, Problem::Syntax(what.to_owned()))
    }

    fn kind(&mut self, before: Option<&Token>) -> Fallible<Kind> {
        let Some(next) = self.rest.chars().next() else { return Ok(Kind::End) };
        match next {
            '"' | '\'' => self.text(next),
            '`' => self.template(),
            '/' if begins_expression(before) => self.regex(),
            _ if is_word(next) && !next.is_ascii_digit() => Ok(self.take_word()),
            _ if next.is_ascii_digit() || self.begins_fraction() => self.number(),
            _ => self.punctuator(),
        }
    }

    fn begins_fraction(&self) -> bool {
        let mut next = self.rest.chars();
        next.next() == Some('.') && next.next().is_some_and(|digit| digit.is_ascii_digit())
    }

    fn take_word(&mut self) -> Kind {
        let end = self.rest.find(|c: char| !is_word(c)).unwrap_or(self.rest.len());
        let word = Rc::from(&self.rest[..end]);
        self.advance(end);
        Kind::Word(word)
    }

    fn number(&mut self) -> Fallible<Kind> {
        let length = number::length(self.rest);
        let parsed = number::literal(&self.rest[..length]).ok_or_else(|| self.wrong("a number is malformed"))?;
        self.advance(length);
        Ok(Kind::Number(parsed))
    }

    fn punctuator(&mut self) -> Fallible<Kind> {
        let punctuator = PUNCTUATORS.iter().find(|punctuator| self.rest.starts_with(**punctuator));
        let punctuator = punctuator.ok_or_else(|| self.wrong("a character has no meaning here"))?;
        self.advance(punctuator.len());
        Ok(Kind::Punctuator(punctuator))
    }

    fn text(&mut self, quote: char) -> Fallible<Kind> {
        self.advance(1);
        let mut text = String::new();
        loop {
            match self.character()? {
                Some((c, false)) if c == quote => return Ok(Kind::Text(text.into())),
                Some(('\n', false)) | None => return Err(self.wrong("a string does not end")),
                Some((c, _)) => text.extend((c != '\0').then_some(c)),
            }
        }
    }

    fn template(&mut self) -> Fallible<Kind> {
        self.advance(1);
        let (mut texts, mut sources, mut text) = (Vec::new(), Vec::new(), String::new());
        loop {
            if self.rest.starts_with("${") {
                self.advance(2);
                texts.push(Rc::from(std::mem::take(&mut text)));
                sources.push(self.inside()?);
                continue;
            }
            match self.character()? {
                Some(('`', false)) => break,
                Some((c, _)) => text.extend((c != '\0').then_some(c)),
                None => return Err(self.wrong("a template does not end")),
            }
        }
        texts.push(Rc::from(text));
        Ok(Kind::Template(texts, sources))
    }

    fn inside(&mut self) -> Fallible<Source> {
        if self.depth == MAX_DEPTH / 4 {
            return Err((self.line, Problem::TooDeep));
        }
        self.depth += 1;
        let source = self.source(true);
        self.depth -= 1;
        source
    }

    /// The next character of a string, and whether it was escaped; `None` for an escaped end of
    /// line.
    fn character(&mut self) -> Fallible<Option<(char, bool)>> {
        let Some(next) = self.rest.chars().next() else { return Ok(None) };
        self.advance(next.len_utf8());
        if next != '\\' {
            return Ok(Some((next, false)));
        }
        let escaped = self.rest.chars().next().ok_or_else(|| self.wrong("a string does not end"))?;
        self.advance(escaped.len_utf8());
        let meant = match escaped {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'v' => '\u{b}',
            'f' => '\u{c}',
            '0'..='9' => return Err(self.wrong("an escape is not understood")),
            '\n' => '\0',
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            other => other,
        };
        Ok(Some((meant, true)))
    }

    fn code(&mut self, digits: usize) -> Fallible<char> {
        let code = self.rest.get(..digits).and_then(|code| u32::from_str_radix(code, 16).ok());
        let code = code.and_then(char::from_u32).ok_or_else(|| self.wrong("an escape is not understood"))?;
        self.advance(digits);
        Ok(code)
    }

    fn regex(&mut self) -> Fallible<Kind> {
        let (mut class, mut escaped) = (false, false);
        for (index, c) in self.rest.char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '[' => class = true,
                ']' => class = false,
                '/' if !class => {
                    self.advance(index + 1);
                    self.take_word();
                    return Ok(Kind::Regex);
                }
                _ => {}
            }
        }
        Err(self.wrong("a regular expression does not end"))
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// Whether a slash after this token begins a regular expression rather than a division.
fn begins_expression(before: Option<&Token>) -> bool {
    match before.map(|token| &token.kind) {
        None | Some(Kind::End) => true,
        Some(Kind::Punctuator(punctuator)) => !matches!(*punctuator, ")" | "]" | "}" | "++" | "--"),
        Some(Kind::Word(word)) => BEFORE_EXPRESSION.contains(&&**word),
        Some(Kind::Number(_) | Kind::Text(_) | Kind::Template(..) | Kind::Regex) => false,
    }
}
