//! Prose is narrow, and its sentences are short.

use rampmeter_tests::repository::{File, files};
use std::collections::BTreeMap;

/// Columns of a line of prose.
const MAX_COLUMNS: usize = 100;
/// Words of a sentence.
const MAX_WORDS: usize = 25;
/// Sentences that are longer, because they have a reason. No further ones may join them.
const MAX_LONG_SENTENCES: usize = 62;

#[test]
fn prose_is_narrow() {
    let pages = files("", "rs").into_iter().chain(files("", "md"));
    let is_wide = |line: &&str| line.chars().count() > MAX_COLUMNS;
    let wide =
        |file: File| prose(&file).filter(is_wide).map(|line| format!("{}: {line}", file.path)).collect::<Vec<_>>();
    assert_eq!(pages.flat_map(wide).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn comments_of_manifests_are_narrow() {
    for file in files("", "toml").iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let mut comments = file.text.lines().filter(|line| line.starts_with('#'));
        let wide = comments.find(|line| line.chars().count() > MAX_COLUMNS && !line.contains("://"));
        assert_eq!(wide, None, "{}", file.path);
    }
}

/// Prints the number of long sentences by folder, and fails if there are more than before.
#[test]
#[expect(clippy::print_stdout, reason = "the report is for people")]
fn long_sentences_become_no_more() {
    let short = "/// Twenty-five words are the most. A list, a colon: all count.\n";
    let long = format!("//! {}.\nfn code() {{}}\n", "word ".repeat(MAX_WORDS + 1).trim_end());
    assert_eq!(long_sentences(&File { path: "a.rs".to_owned(), text: short.to_owned() }), 0);
    assert_eq!(long_sentences(&File { path: "a.rs".to_owned(), text: format!("{short}{long}") }), 1);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for file in files("", "rs").into_iter().chain(files("", "md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        *counts.entry(folder).or_default() += long_sentences(&file);
    }
    for (folder, count) in counts.iter().filter(|(_, count)| **count > 0) {
        println!("{count:4} sentences of more than {MAX_WORDS} words in {folder}/");
    }
    let all: usize = counts.values().sum();
    assert!(all <= MAX_LONG_SENTENCES, "{all} long sentences are more than {MAX_LONG_SENTENCES}");
}

#[test]
fn code_tables_and_links_are_no_prose() {
    let page = "Text.\n```\ncode\n```\n| cell |\n[link](a.md)\n\nhttps://example.org/ is a link.\nEnd.";
    let page = File { path: "a.md".to_owned(), text: page.to_owned() };
    assert_eq!(prose(&page).collect::<Vec<_>>(), ["Text.", "", "End."]);
    let code = "//! Module.\n//! ```\n//! code\n//! ```\nfn f() {} // no line of its own\n    // Why.\n/// | cell |\n";
    let code = File { path: "a.rs".to_owned(), text: code.to_owned() };
    assert_eq!(prose(&code).collect::<Vec<_>>(), ["//! Module.", "    // Why."]);
}

/// The lines of a page or of comments, outside code, tables and lines with links.
fn prose(file: &File) -> impl Iterator<Item = &str> {
    numbered_prose(file).map(|(_, line)| line)
}

fn numbered_prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let is_code = file.path.ends_with(".rs");
    let mut is_fenced = false;
    file.text.lines().enumerate().filter(move |(_, line)| {
        let text = content(line);
        if is_code && !is_comment(line) {
            is_fenced = false;
            return false;
        }
        let is_fence = text.starts_with("```");
        is_fenced ^= is_fence;
        !is_fence && !is_fenced && !text.starts_with('|') && !text.contains("](") && !text.contains("://")
    })
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// What a line says, without the marks of its comment.
fn content(line: &str) -> &str {
    line.trim_start().trim_start_matches('/').trim_start_matches('!').trim()
}

fn long_sentences(file: &File) -> usize {
    let mut paragraphs = vec![String::new()];
    let mut last = 0;
    for (number, line) in numbered_prose(file) {
        let text = content(line);
        let begins = text.is_empty() || text.starts_with(['#', '*', '-']) || number != last + 1;
        if begins {
            paragraphs.push(String::new());
        }
        last = number;
        let paragraph = paragraphs.last_mut().expect("begins with one");
        paragraph.push_str(text);
        paragraph.push(' ');
    }
    let text = paragraphs.join(". ").replace(['?', '!'], ".");
    text.split(". ").filter(|sentence| words(sentence) > MAX_WORDS).count()
}

fn words(sentence: &str) -> usize {
    sentence.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}
