//! The tokens of a script.

use crate::error::Problem;
use std::ops::Range;
use std::rc::Rc;

/// A token with its line.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) line: u32,
    /// Whether it is the first token of its line.
    pub(crate) first: bool,
}

/// The kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A name or keyword.
    Word(Rc<str>),
    Number(f64),
    Text(Rc<str>),
    /// A template: texts, and tokens between them.
    Template(Vec<Rc<str>>, Vec<Source>),
    /// A regular expression. Only functions that are not called may contain one.
    Regex,
    Punctuator(&'static str),
    End,
}

/// Some neighbouring tokens of a script.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    pub(crate) source: Source,
    pub(crate) range: Range<usize>,
}

/// The tokens of a script, or of an expression inside a template. The last token is [`Kind::End`].
/// Each opening bracket knows its closing one.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) tokens: Rc<[Token]>,
    /// By the index of an opening bracket, the index of its closing one.
    partners: Rc<[usize]>,
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.tokens, &other.tokens)
    }
}

impl Source {
    /// Matches the brackets.
    ///
    /// # Errors
    /// If brackets are not balanced. The error has the line.
    pub(crate) fn new(tokens: Vec<Token>) -> Result<Self, (u32, Problem)> {
        let mut partners = vec![0; tokens.len()];
        let mut open: Vec<(usize, &'static str)> = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            let Kind::Punctuator(punctuator) = token.kind else { continue };
            if let Some(close) = closing(punctuator) {
                open.push((index, close));
            } else if matches!(punctuator, ")" | "]" | "}") {
                match open.pop() {
                    Some((opening, close)) if close == punctuator => partners[opening] = index,
                    Some(_) | None => {
                        return Err((token.line, Problem::Syntax(format!("`{punctuator}` closes nothing"))));
                    }
                }
            }
        }
        match open.pop() {
            Some((index, close)) => Err((tokens[index].line, Problem::Syntax(format!("`{close}` is missing")))),
            None => Ok(Source { tokens: tokens.into(), partners: partners.into() }),
        }
    }

    /// The index of the bracket that closes the one at `index`.
    pub(crate) fn partner(&self, index: usize) -> usize {
        self.partners[index]
    }
}

fn closing(punctuator: &str) -> Option<&'static str> {
    match punctuator {
        "(" => Some(")"),
        "[" => Some("]"),
        "{" => Some("}"),
        _ => None,
    }
}
