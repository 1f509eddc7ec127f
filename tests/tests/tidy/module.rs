//! What one module of Rust says: what it defines, what it imports, and which paths it mentions.
//!
//! Rust's own tokens are read, so that no path hides in braces, and none is found in a comment or a
//! string. What is compiled only for tests is left out.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// The segments of a path, as they are written or from the root of a package.
pub(crate) type Segments = Vec<String>;

/// How an item begins that has a name of its own.
const NAMED: [&str; 9] = ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "mod"];
/// The items that are types.
const TYPES: [&str; 5] = ["struct", "enum", "union", "trait", "type"];
/// The words that may stand before one of [`NAMED`].
const MODIFIERS: [&str; 6] = ["async", "auto", "const", "default", "extern", "unsafe"];
/// Items that end with a semicolon, whatever braces are in them.
const ENDED: [&str; 4] = ["use", "type", "const", "static"];

/// One import: the name that it gives, and the path behind it.
#[derive(Clone, Debug)]
pub(crate) struct Import {
    pub(crate) name: String,
    pub(crate) path: Segments,
    pub(crate) is_visible: bool,
}

/// An item that the module defines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) is_type: bool,
    pub(crate) is_visible: bool,
}

/// One module, in a file of its own or in braces.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) items: BTreeMap<String, Item>,
    pub(crate) imports: Vec<Import>,
    /// Paths of two segments and more, outside imports.
    pub(crate) mentions: BTreeSet<Segments>,
    /// Every word outside imports.
    pub(crate) words: BTreeSet<String>,
    /// Modules in files of their own.
    pub(crate) children: Vec<String>,
    /// Modules in braces.
    pub(crate) inline: BTreeMap<String, Module>,
}

impl Module {
    /// Reads the text of a file.
    ///
    /// # Panics
    /// If it is no Rust.
    pub(crate) fn read(text: &str) -> Self {
        let tokens: TokenStream = text.parse().expect("tokens of Rust");
        let mut module = Self::default();
        module.take_items(&tokens.into_iter().collect::<Vec<_>>());
        module
    }

    fn take_items(&mut self, mut tokens: &[TokenTree]) {
        while !tokens.is_empty() {
            let (head, rest) = Head::read(tokens);
            let (item, behind) = rest.split_at(length(rest));
            if !head.is_test {
                self.take_item(head.is_visible, item);
            }
            tokens = behind;
        }
    }

    fn take_item(&mut self, is_visible: bool, item: &[TokenTree]) {
        if word(item.first()) == Some("use".to_owned()) {
            return self.take_import(is_visible, &item[1..]);
        }
        let Some((kind, name)) = kind_and_name(item) else { return self.scan(item) };
        if kind == "mod" {
            return self.take_module(name, item.last());
        }
        self.items.insert(name, Item { is_type: TYPES.contains(&kind.as_str()), is_visible });
        self.scan(item);
    }

    fn take_module(&mut self, name: String, end: Option<&TokenTree>) {
        let Some(TokenTree::Group(body)) = end else { return self.children.push(name) };
        let mut module = Self::default();
        module.take_items(&trees(body));
        self.inline.insert(name, module);
    }

    fn take_import(&mut self, is_visible: bool, tree: &[TokenTree]) {
        for path in use_tree(tree) {
            let (path, renamed) = match path.iter().position(|segment| segment == "as") {
                Some(at) => (path[..at].to_vec(), path.last().cloned()),
                None => (path, None),
            };
            let path = match path.split_last() {
                Some((last, front)) if last == "self" && !front.is_empty() => front.to_vec(),
                _ => path,
            };
            let Some(name) = renamed.or_else(|| path.last().cloned()) else { continue };
            self.imports.push(Import { name, path, is_visible });
        }
    }

    /// Takes the paths and words of code, and the imports inside functions.
    fn scan(&mut self, mut tokens: &[TokenTree]) {
        while let Some((first, rest)) = tokens.split_first() {
            tokens = rest;
            match first {
                TokenTree::Punct(mark) if mark.as_char() == '#' => tokens = self.skip_tests(rest),
                TokenTree::Punct(mark) if mark.as_char() == '.' => {
                    if let Some((TokenTree::Ident(field), behind)) = rest.split_first() {
                        self.words.insert(field.to_string());
                        tokens = behind;
                    }
                }
                TokenTree::Ident(ident) if ident == "use" => {
                    let end = rest.iter().position(|token| is(token, ';')).unwrap_or(rest.len());
                    self.take_import(false, &rest[..end]);
                    tokens = &rest[end..];
                }
                TokenTree::Ident(_) => {
                    let (path, behind) = path(first, rest);
                    self.words.extend(path.iter().cloned());
                    if path.len() > 1 {
                        self.mentions.insert(path);
                    }
                    tokens = behind;
                }
                TokenTree::Group(group) => self.scan(&trees(group)),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// The tokens after an attribute, and after its item if that is for tests alone.
    fn skip_tests<'a>(&mut self, tokens: &'a [TokenTree]) -> &'a [TokenTree] {
        let Some((TokenTree::Group(attribute), behind)) = tokens.split_first() else { return tokens };
        if is_for_tests(attribute) {
            let (_, item) = Head::read(behind);
            return &item[length(item)..];
        }
        self.scan(&trees(attribute));
        behind
    }
}

/// The attributes and the visibility of an item.
struct Head {
    is_test: bool,
    is_visible: bool,
}

impl Head {
    fn read(mut tokens: &[TokenTree]) -> (Self, &[TokenTree]) {
        let mut head = Self { is_test: false, is_visible: false };
        loop {
            match tokens {
                [hash, TokenTree::Group(attribute), rest @ ..] if is(hash, '#') => {
                    head.is_test |= is_for_tests(attribute);
                    tokens = rest;
                }
                [hash, bang, TokenTree::Group(_), rest @ ..] if is(hash, '#') && is(bang, '!') => tokens = rest,
                [TokenTree::Ident(ident), rest @ ..] if ident == "pub" => {
                    head.is_visible = true;
                    tokens = match rest {
                        [TokenTree::Group(scope), behind @ ..] if scope.delimiter() == Delimiter::Parenthesis => behind,
                        _ => rest,
                    };
                }
                _ => return (head, tokens),
            }
        }
    }
}

fn is_for_tests(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// The number of tokens of the first item.
fn length(tokens: &[TokenTree]) -> usize {
    let kind = kind_and_name(tokens).map(|(kind, _)| kind).or_else(|| word(tokens.first()));
    let has_braces = !kind.is_some_and(|kind| ENDED.contains(&kind.as_str()));
    let is_end = |token: &TokenTree| is(token, ';') || has_braces && is_brace(token);
    tokens.iter().position(is_end).map_or(tokens.len(), |at| at + 1)
}

fn kind_and_name(item: &[TokenTree]) -> Option<(String, String)> {
    for (at, token) in item.iter().enumerate() {
        let next = word(item.get(at + 1));
        match token {
            // The ABI of `extern "C"`.
            TokenTree::Literal(_) => {}
            TokenTree::Ident(ident) => {
                let kind = ident.to_string();
                let is_modifier = MODIFIERS.contains(&kind.as_str())
                    && next
                        .as_ref()
                        .is_none_or(|next| MODIFIERS.contains(&next.as_str()) || NAMED.contains(&next.as_str()));
                if !is_modifier {
                    return next.filter(|_| NAMED.contains(&kind.as_str())).map(|name| (kind, name));
                }
            }
            TokenTree::Punct(_) | TokenTree::Group(_) => return None,
        }
    }
    None
}

/// Every path of a tree of imports, `as` and the new name at its end where there is one.
fn use_tree(tree: &[TokenTree]) -> Vec<Segments> {
    let mut path = Segments::new();
    for token in tree {
        match token {
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Punct(mark) if mark.as_char() == '*' => path.push("*".to_owned()),
            TokenTree::Group(group) => {
                let trees = trees(group);
                let branches = trees.split(|token| is(token, ',')).filter(|branch| !branch.is_empty());
                let paths = branches.flat_map(use_tree);
                return paths.map(|branch| path.iter().cloned().chain(branch).collect()).collect();
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    vec![path]
}

/// The path that begins with `first`, and what follows it.
fn path<'a>(first: &TokenTree, mut rest: &'a [TokenTree]) -> (Segments, &'a [TokenTree]) {
    let mut path = vec![first.to_string()];
    while let [one, other, TokenTree::Ident(next), behind @ ..] = rest
        && is(one, ':')
        && is(other, ':')
    {
        path.push(next.to_string());
        rest = behind;
    }
    (path, rest)
}

fn trees(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

fn word(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        Some(TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_)) | None => None,
    }
}

fn is(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn is_brace(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}
