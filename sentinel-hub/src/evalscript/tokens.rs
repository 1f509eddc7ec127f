//! The tokens of a script.
//!
//! Whether a slash divides or begins a regular expression depends on the syntax around it. If the token before it does
//! not decide, the script is refused: no bracket or quote in such an expression is taken for the script's.

const RESERVED: &str = "await break case catch class const continue debugger default delete do else enum export \
    extends finally for function if import in instanceof let new of return switch throw try typeof var void while \
    with yield";

/// A value, or the reason why there is none, with its line.
pub(super) type Fallible<T> = Result<T, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, a keyword or a number.
    Word,
    /// A string, a regular expression, or a piece of a template between its expressions.
    Text,
    /// One character, or `=>`, `...`, `++`, `--` or `${`.
    Mark,
}

/// A token, of 16 bytes. A script may have one for each of its bytes.
#[derive(Clone, Copy, Debug)]
struct Token {
    kind: Kind,
    /// Whether it is the first of its line.
    first: bool,
    start: u32,
    end: u32,
    /// The other bracket of a pair.
    pair: u32,
}

/// All tokens of a script, whose brackets match. After the end there are marks without text.
pub(super) struct Tokens<'a> {
    source: &'a str,
    tokens: Vec<Token>,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(source: &'a str) -> Fallible<Self> {
        let tokens = Tokens { source, tokens: Vec::with_capacity(source.len()) };
        let mut lexer = Lexer { tokens, at: 0, first: true, open: Vec::new() };
        lexer.all().map_err(|reason| in_line(source, lexer.at, reason))?;
        Ok(lexer.tokens)
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Refuses the script with the token's line.
    pub(super) fn refuse<T>(&self, at: usize, reason: &str) -> Fallible<T> {
        let byte = self.tokens.get(at).map_or(self.source.len(), |token| token.start as usize);
        Err(in_line(self.source, byte, reason))
    }

    pub(super) fn kind(&self, at: usize) -> Kind {
        self.tokens.get(at).map_or(Kind::Mark, |token| token.kind)
    }

    pub(super) fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| &self.source[token.start as usize..token.end as usize])
    }

    pub(super) fn word(&self, at: usize) -> &'a str {
        if self.kind(at) == Kind::Word { self.text(at) } else { "" }
    }

    pub(super) fn is(&self, at: usize, mark: &str) -> bool {
        self.kind(at) == Kind::Mark && self.text(at) == mark
    }

    pub(super) fn is_first(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.first)
    }

    /// Returns the token after this one, or after the bracket that it opens.
    pub(super) fn next(&self, at: usize) -> usize {
        at.max(self.tokens.get(at).map_or(0, |token| token.pair as usize)) + 1
    }

    /// Whether a statement surely begins with this word, and not inside another, such as `if (…)`.
    pub(super) fn begins_statement(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1) else { return true };
        let may_end = match (self.kind(before), self.text(before)) {
            (Kind::Mark, ";" | "}") => return true,
            (Kind::Mark, ")") => !self.is_head(before),
            (Kind::Mark, mark) => ["]", "++", "--"].contains(&mark),
            (Kind::Word, word) => !is_reserved(word),
            (Kind::Text, _) => true,
        };
        may_end && self.is_first(at)
    }

    /// Whether an expression surely ends before this token.
    pub(super) fn ends_expression(&self, at: usize) -> bool {
        let is_word = self.kind(at) == Kind::Word && !["in", "instanceof"].contains(&self.text(at));
        self.is(at, ";") || self.is(at, ",") || at >= self.len() || (is_word && self.begins_statement(at))
    }

    /// Whether this bracket closes that of a statement, such as `if (…)`.
    fn is_head(&self, close: usize) -> bool {
        let open = self.tokens[close].pair as usize;
        open > 0 && matches!(self.word(open - 1), "if" | "while" | "for" | "with" | "await")
    }
}

struct Lexer<'a> {
    tokens: Tokens<'a>,
    at: usize,
    first: bool,
    open: Vec<usize>,
}

impl<'a> Lexer<'a> {
    fn all(&mut self) -> Result<(), &'static str> {
        loop {
            self.skip_blanks()?;
            let Some(next) = self.rest().chars().next() else { break };
            let (kind, length) = self.token(next)?;
            self.push(kind, length);
            match next {
                '`' => self.push_substitution(),
                '(' | '[' | '{' => self.open.push(self.tokens.len() - 1),
                ')' | ']' | '}' => self.close()?,
                _ => {}
            }
        }
        if self.open.is_empty() { Ok(()) } else { Err("a bracket does not end") }
    }

    fn rest(&self) -> &'a str {
        &self.tokens.source[self.at..]
    }

    fn skip_blanks(&mut self) -> Result<(), &'static str> {
        loop {
            let rest = self.rest();
            let text = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            self.skip(rest.len() - text.len());
            if text.starts_with("//") {
                self.skip(text.find(ends_line).unwrap_or(text.len()));
            } else if let Some(comment) = text.strip_prefix("/*") {
                self.skip(comment.find("*/").ok_or("a comment does not end")? + 4);
            } else if text.starts_with("<!--") || text.starts_with("#!") || (self.first && text.starts_with("-->")) {
                return Err("a comment of HTML or a shell is not read here");
            } else {
                return Ok(());
            }
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.first |= self.rest()[..bytes].contains(ends_line);
        self.at += bytes;
    }

    fn token(&self, next: char) -> Result<(Kind, usize), &'static str> {
        let rest = self.rest();
        let word = rest.find(|c| !(is_word(c) || (c == '.' && next.is_ascii_digit()))).unwrap_or(rest.len());
        let long = ["...", "=>", "++", "--"].iter().find(|mark| rest.starts_with(**mark));
        Ok(match next {
            '"' | '\'' | '`' => (Kind::Text, self.quoted(next, 1)?),
            '/' if self.begins_regex()? => (Kind::Text, self.quoted(next, 1)?),
            _ if is_word(next) => (Kind::Word, word),
            _ if next.is_ascii_punctuation() && next != '\\' => (Kind::Mark, long.map_or(1, |mark| mark.len())),
            _ => return Err("a character has no meaning here"),
        })
    }

    /// Returns the length of a string, a regular expression, or a template's piece up to its end or an expression.
    fn quoted(&self, quote: char, begin: usize) -> Result<usize, &'static str> {
        let (mut is_escaped, mut in_class) = (false, false);
        for (index, c) in self.rest().char_indices().skip(begin) {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '$' if quote == '`' && self.rest()[index..].starts_with("${") => return Ok(index),
                '[' | ']' if quote == '/' => in_class = c == '[',
                _ if c == quote && !in_class => return Ok(index + 1),
                _ if ends_line(c) && quote != '`' => break,
                _ => {}
            }
        }
        Err("a string, template or regular expression does not end")
    }

    fn begins_regex(&self) -> Result<bool, &'static str> {
        let Some(last) = self.tokens.len().checked_sub(1) else { return Ok(true) };
        let is_property = last > 0 && self.tokens.is(last - 1, ".");
        match (self.tokens.kind(last), self.tokens.text(last)) {
            (Kind::Text, _) | (Kind::Mark, "]") => Ok(false),
            (Kind::Word, word) if is_property || !is_reserved(word) => Ok(false),
            (Kind::Word, "return" | "typeof" | "case") => Ok(true),
            (Kind::Mark, ")") if !self.tokens.is_head(last) => Ok(false),
            (Kind::Word, _) | (Kind::Mark, ")" | "}" | "++" | "--") => Err("a slash may mean two things here"),
            (Kind::Mark, _) => Ok(true),
        }
    }

    fn push(&mut self, kind: Kind, length: usize) {
        let end = self.at + length;
        let token = Token { kind, first: self.first, start: self.at as u32, end: end as u32, pair: 0 };
        self.tokens.tokens.push(token);
        (self.at, self.first) = (end, false);
    }

    /// Continues after a piece of a template.
    fn push_substitution(&mut self) {
        if self.rest().starts_with("${") {
            self.open.push(self.tokens.len());
            self.push(Kind::Mark, 2);
        }
    }

    /// Pairs the last token with the bracket that it closes.
    fn close(&mut self) -> Result<(), &'static str> {
        let close = self.tokens.len() - 1;
        let pairs = |open: &usize| {
            let pair = (self.tokens.text(*open), self.tokens.text(close));
            matches!(pair, ("(", ")") | ("[", "]") | ("{" | "${", "}"))
        };
        let open = self.open.pop().filter(pairs).ok_or("a bracket closes nothing")?;
        (self.tokens.tokens[open].pair, self.tokens.tokens[close].pair) = (close as u32, open as u32);
        if self.tokens.is(open, "${") {
            self.push(Kind::Text, self.quoted('`', 0)?);
            self.push_substitution();
        }
        Ok(())
    }
}

fn in_line(source: &str, byte: usize, reason: &str) -> String {
    format!("line {}: {reason}", 1 + source[..byte].matches('\n').count())
}

fn is_reserved(word: &str) -> bool {
    RESERVED.split(' ').any(|reserved| reserved == word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '#')
}

fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}
