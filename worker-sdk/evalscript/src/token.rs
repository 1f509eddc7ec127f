//! The words of a script.

use crate::error::Problem;
use std::rc::Rc;

/// A word, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) line: u32,
    /// Whether it is the first of its line.
    pub(crate) first: bool,
}

/// What a word is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A name or keyword.
    Word(Rc<str>),
    Number(f64),
    Text(Rc<str>),
    /// A template: texts, and words between them.
    Template(Vec<Rc<str>>, Vec<Source>),
    /// A regular expression, which only functions that are not called may have.
    Regex,
    Mark(&'static str),
    End,
}

/// The words of a script, or of an expression inside a template, the last of them [`Kind::End`];
/// brackets know their partners.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) tokens: Rc<[Token]>,
    /// By the index of an opening bracket, that of its closing one.
    partners: Rc<[usize]>,
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.tokens, &other.tokens)
    }
}

impl Source {
    /// Finds the partners.
    ///
    /// # Errors
    /// If brackets are not balanced, with the line.
    pub(crate) fn new(tokens: Vec<Token>) -> Result<Self, (u32, Problem)> {
        let mut partners = vec![0; tokens.len()];
        let mut open: Vec<(usize, &'static str)> = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            let Kind::Mark(mark) = token.kind else { continue };
            if let Some(close) = closing(mark) {
                open.push((index, close));
            } else if matches!(mark, ")" | "]" | "}") {
                match open.pop() {
                    Some((opening, close)) if close == mark => partners[opening] = index,
                    Some(_) | None => return Err((token.line, Problem::Syntax(format!("`{mark}` closes nothing")))),
                }
            }
        }
        match open.pop() {
            Some((index, close)) => Err((tokens[index].line, Problem::Syntax(format!("`{close}` is missing")))),
            None => Ok(Source { tokens: tokens.into(), partners: partners.into() }),
        }
    }

    /// Where the bracket that opens at `index` closes.
    pub(crate) fn partner(&self, index: usize) -> usize {
        self.partners[index]
    }
}

fn closing(mark: &str) -> Option<&'static str> {
    match mark {
        "(" => Some(")"),
        "[" => Some("]"),
        "{" => Some("}"),
        _ => None,
    }
}
