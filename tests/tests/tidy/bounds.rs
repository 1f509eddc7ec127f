//! Each bound is reached: a test or a planted fault names its constant.
//!
//! A test of the same file names the bound as `MAX_…`. Any other test does so only if no second
//! file has that name, and otherwise names it as `module::MAX_…`. A private constant is named in
//! a comment.

use crate::{is_test, test_code};
use rampmeter_tests::repository::{File, files};
use std::collections::BTreeMap;

/// A constant that bounds something.
struct Bound<'a> {
    file: &'a File,
    name: &'a str,
}

impl Bound<'_> {
    /// Its name behind that of its file, or of the folder if the file is its root.
    fn full_name(&self) -> String {
        let roots = ["/mod.rs", "/lib.rs", "/main.rs"];
        let root = roots.iter().find_map(|root| self.file.path.strip_suffix(root));
        let path = root.unwrap_or_else(|| self.file.path.trim_end_matches(".rs")).trim_end_matches("/src");
        format!("{}::{}", path.rsplit('/').next().unwrap_or_default(), self.name)
    }

    fn is_reached(&self, is_unique: bool, witnesses: &[File]) -> bool {
        let full_name = self.full_name();
        let name = if is_unique { self.name } else { &full_name };
        has_word(test_code(self.file), self.name)
            || witnesses.iter().any(|witness| has_word(witness_code(witness), name))
    }
}

#[test]
fn each_bound_is_reached() {
    let sources = files("", "rs");
    let faults = files("tests/faults", "py");
    let witnesses: Vec<File> = sources.iter().chain(&faults).cloned().collect();
    assert_eq!(unreached(&sources, &witnesses), Vec::<String>::new(), "bounds that no test names");
}

#[test]
fn a_bound_that_no_test_names_is_found() {
    let source = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let bounds = [
        source("a/src/one.rs", "pub(crate) const MAX_ONE: usize = 1;\nconst MAX_SAME: usize = 2;\n"),
        source("a/src/two.rs", "const MAX_SAME: usize = 2;\n#[cfg(test)]\nmod tests { const A: usize = MAX_SAME; }\n"),
    ];
    let found = |test: &str| unreached(&bounds, &[source("a/tests/all.rs", test)]);
    assert_eq!(found("MAX_ONES"), ["one::MAX_ONE", "one::MAX_SAME"]);
    assert_eq!(found("MAX_ONE and MAX_SAME"), ["one::MAX_SAME"]);
    assert_eq!(found("/// Reaches `MAX_ONE` and `one::MAX_SAME`."), Vec::<String>::new());
}

/// The full names of bounds that no witness names.
fn unreached(sources: &[File], witnesses: &[File]) -> Vec<String> {
    let all: Vec<Bound<'_>> = sources.iter().flat_map(bounds).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    all.iter().for_each(|bound| *counts.entry(bound.name).or_default() += 1);
    let missing = all.iter().filter(|bound| !bound.is_reached(counts[bound.name] == 1, witnesses));
    missing.map(Bound::full_name).collect()
}

/// The bounds that the product's part of a file declares.
fn bounds(file: &File) -> impl Iterator<Item = Bound<'_>> {
    let is_product = !is_test(file) && file.path.contains("/src/");
    let product = file.text.split("#[cfg(test)]").next().filter(|_| is_product).unwrap_or_default();
    let name = |line| constant(line).filter(|name| name.starts_with("MAX_"));
    product.lines().filter_map(name).map(move |name| Bound { file, name })
}

/// The name of the constant that a line declares.
fn constant(line: &str) -> Option<&str> {
    let (visibility, declared) = line.trim_start().split_once("const ")?;
    (visibility.is_empty() || visibility.starts_with("pub")).then(|| declared.split(':').next().unwrap_or_default())
}

/// What may name a bound: tests, and all of a table of faults.
fn witness_code(file: &File) -> &str {
    if is_test(file) { &file.text } else { test_code(file) }
}

fn has_word(text: &str, word: &str) -> bool {
    let belongs = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(belongs) && !after.starts_with(belongs)
    })
}
