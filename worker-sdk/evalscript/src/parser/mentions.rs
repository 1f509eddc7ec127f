//! What a statement that is not understood may change, by its tokens alone.

use crate::token::{Kind, Source, Tokens};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Words that declare the name behind them.
const DECLARING: [&str; 5] = ["var", "let", "const", "function", "class"];

/// Names through which every global can be changed.
const GLOBAL_OBJECTS: [&str; 5] = ["globalThis", "window", "self", "eval", "Function"];

const ASSIGNMENTS: [&str; 16] =
    ["=", "+=", "-=", "*=", "/=", "%=", "**=", "<<=", ">>=", ">>>=", "&=", "|=", "^=", "&&=", "||=", "??="];

/// What the evaluation of some tokens may change. It is never too little.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    /// Names that may get another value.
    pub(crate) assigned: BTreeSet<Rc<str>>,
    /// Names whose arrays and objects may be changed, and whose functions may be called.
    pub(crate) used: BTreeSet<Rc<str>>,
    /// Names with a member that may get another value, in themselves or in their `prototype`.
    pub(crate) with_changed_members: BTreeSet<Rc<str>>,
    /// Whether any global may be changed.
    pub(crate) everything: bool,
}

impl Mentions {
    /// The mentions of some tokens, including those of functions among them.
    pub(crate) fn of(tokens: &Tokens) -> Self {
        let first = word(&tokens.source, tokens.range.start);
        let mut mentions = Mentions::default();
        mentions.add(tokens, false);
        if matches!(first, Some("import" | "export")) {
            mentions.assigned.extend(mentions.used.iter().cloned());
        }
        mentions
    }

    /// `is_of_class` tells that a class encloses all of the tokens.
    fn add(&mut self, tokens: &Tokens, is_of_class: bool) {
        let source = &tokens.source;
        let (mut end_of_pattern, mut end_of_class) = (0, if is_of_class { tokens.range.end } else { 0 });
        for index in tokens.range.clone() {
            match &source.tokens[index].kind {
                Kind::Punctuator("[" | "{") if is_pattern(source, source.partner(index) + 1) => {
                    end_of_pattern = end_of_pattern.max(source.partner(index));
                }
                Kind::Template(_, sources) => {
                    for source in sources {
                        let tokens = Tokens { source: source.clone(), range: 0..source.tokens.len() };
                        self.add(&tokens, index < end_of_class);
                    }
                }
                Kind::Word(name) if **name == *"__proto__" => {
                    self.with_changed_members.insert(Rc::from("Object"));
                }
                Kind::Word(name) if is_name(source, index) => {
                    // `this` is the global object in a plain call of a function, but not in a
                    // method of a class.
                    let is_global = **name == *"this" && index >= end_of_class;
                    self.everything |= is_global || GLOBAL_OBJECTS.contains(&&**name);
                    if **name == *"class" {
                        end_of_class = end_of_class.max(end_of_body(source, index));
                    }
                    if index < end_of_pattern || is_assigned(source, index) {
                        self.assigned.insert(name.clone());
                    }
                    self.used.insert(name.clone());
                    if changes_member(source, index) {
                        self.with_changed_members.insert(name.clone());
                    }
                }
                Kind::Word(_) | Kind::Punctuator(_) | Kind::Number(_) | Kind::Text(_) | Kind::Regex | Kind::End => {}
            }
        }
    }
}

/// Where the body of the class at `index` ends. A name and `extends` with a name may precede it.
fn end_of_body(source: &Source, index: usize) -> usize {
    let open = (index + 1..index + 5).find(|behind| word(source, *behind).is_none()).unwrap_or(index);
    if punctuator(source, open) == Some("{") { source.partner(open) } else { index }
}

/// Functions that change the members of an argument, or of what that inherits from.
const CHANGING: [&str; 4] = ["assign", "defineProperty", "defineProperties", "setPrototypeOf"];

/// Whether a member of the name at `index` may get another value. It may by an assignment, or if
/// the name or its `prototype` is an argument of a function that changes members.
fn changes_member(source: &Source, index: usize) -> bool {
    let mut behind = index + 1;
    while let Some(end) = end_of_member(source, behind) {
        behind = end;
    }
    let has_members = behind > index + 1;
    let gets_value = has_members && punctuator(source, behind).is_some_and(changes_value);
    let Some(before) = index.checked_sub(1) else { return gets_value };
    let called = before.checked_sub(1).filter(|_| punctuator(source, before) == Some("("));
    let is_argument = called.and_then(|called| word(source, called)).is_some_and(|called| CHANGING.contains(&called));
    let is_stepped = punctuator(source, before).is_some_and(is_step);
    gets_value || is_argument || has_members && (is_stepped || word(source, before) == Some("delete"))
}

/// Where the member that begins at `index` ends, if one does.
fn end_of_member(source: &Source, index: usize) -> Option<usize> {
    match punctuator(source, index)? {
        "." => word(source, index + 1).map(|_| index + 2),
        "[" => Some(source.partner(index) + 1),
        _ => None,
    }
}

fn changes_value(punctuator: &str) -> bool {
    ASSIGNMENTS.contains(&punctuator) || is_step(punctuator)
}

/// The name of the class or function that a skipped statement declares, if that is all it does. Its
/// code runs when it is called.
pub(crate) fn declared_for_later(tokens: &Tokens) -> Option<Rc<str>> {
    let (source, start) = (&tokens.source, tokens.range.start);
    let behind = match word(source, start)? {
        "async" if word(source, start + 1) == Some("function") => start + 2,
        "function" => start + 1,
        "class" if !runs_at_once(tokens) => start + 1,
        _ => return None,
    };
    let is_generator = punctuator(source, behind) == Some("*");
    match &source.tokens.get(behind + usize::from(is_generator))?.kind {
        Kind::Word(name) => Some(name.clone()),
        Kind::Punctuator(_) | Kind::Number(_) | Kind::Text(_) | Kind::Template(..) | Kind::Regex | Kind::End => None,
    }
}

/// Whether parts of a class run where it is declared.
fn runs_at_once(class: &Tokens) -> bool {
    class.range.clone().any(|index| {
        matches!(word(&class.source, index), Some("static" | "extends"))
            || punctuator(&class.source, index) == Some("[") && !follows_value(&class.source, index)
    })
}

/// Whether what precedes a bracket is a value, of which the bracket takes a member.
fn follows_value(source: &Source, index: usize) -> bool {
    match source.tokens.get(index.wrapping_sub(1)).map(|token| &token.kind) {
        Some(Kind::Word(_)) => true,
        Some(Kind::Punctuator(punctuator)) => !matches!(*punctuator, "{" | "}" | ";" | "*"),
        Some(Kind::Number(_) | Kind::Text(_) | Kind::Template(..) | Kind::Regex | Kind::End) | None => true,
    }
}

/// Whether the word at `index` is no property.
fn is_name(source: &Source, index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|before| punctuator(source, before));
    let is_member = matches!(before, Some("." | "?."));
    let is_key = matches!(before, Some("{" | ",")) && punctuator(source, index + 1) == Some(":");
    !is_member && !is_key
}

/// Whether what ends before `behind` is a pattern whose names get values.
fn is_pattern(source: &Source, behind: usize) -> bool {
    punctuator(source, behind) == Some("=") || matches!(word(source, behind), Some("of" | "in"))
}

fn is_assigned(source: &Source, index: usize) -> bool {
    let behind = punctuator(source, index + 1);
    let gets_value = behind.is_some_and(changes_value);
    let is_loop = matches!(word(source, index + 1), Some("of" | "in"));
    let Some(before) = index.checked_sub(1) else { return gets_value || is_loop };
    let is_declared = word(source, before).is_some_and(|before| DECLARING.contains(&before));
    gets_value || is_loop || is_declared || punctuator(source, before).is_some_and(is_step)
}

fn is_step(punctuator: &str) -> bool {
    matches!(punctuator, "++" | "--")
}

fn word(source: &Source, index: usize) -> Option<&str> {
    match &source.tokens.get(index)?.kind {
        Kind::Word(word) => Some(word),
        Kind::Punctuator(_) | Kind::Number(_) | Kind::Text(_) | Kind::Template(..) | Kind::Regex | Kind::End => None,
    }
}

fn punctuator(source: &Source, index: usize) -> Option<&'static str> {
    match source.tokens.get(index)?.kind {
        Kind::Punctuator(punctuator) => Some(punctuator),
        Kind::Word(_) | Kind::Number(_) | Kind::Text(_) | Kind::Template(..) | Kind::Regex | Kind::End => None,
    }
}
