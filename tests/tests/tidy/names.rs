//! Words of names and comments: a visible type has a name of its own, subjects are things, and
//! verbs are plain.

use crate::package::packages;
use rampmeter_tests::repository::{File, files};
use std::collections::{BTreeMap, BTreeSet};

/// Names that types of several files have, and why: the package's sources, the name, the reason.
const SHARED: &[(&str, &str, &str)] =
    &[("protocol/src", "Status", "that of a resource, and the field `status` of an answer on the wire")];

/// Subjects that name no thing, so that a reader has to guess which one acts.
const VAGUE: [&str; 4] = ["who", "whoever", "nobody", "somebody"];
/// Verbs of comments that say too little: what is replaced, set or adopted, and what is stated or
/// reported?
const OBSCURE: [&str; 3] = ["continues with ", "continues under ", "tells of "];
/// Sources with comments, and the marks with which the lines of a comment begin.
const COMMENTED: [(&str, &[&str]); 6] = [
    ("rs", &["//"]),
    ("js", &["//", "*", "/*"]),
    ("ts", &["//", "*", "/*"]),
    ("py", &["#", "\"\"\""]),
    ("toml", &["#"]),
    ("yaml", &["#"]),
];

#[test]
#[expect(clippy::print_stdout, reason = "a test that fails says where")]
fn a_type_name_occurs_once_in_a_package() {
    let mut found = BTreeSet::new();
    for (folder, package) in packages() {
        let mut types: BTreeMap<&str, Vec<(&str, bool)>> = BTreeMap::new();
        for (name, file, item) in package.items().filter(|(_, _, item)| item.is_type) {
            types.entry(name).or_default().push((file, item.is_visible));
        }
        for (name, places) in types {
            if places.len() > 1 && places.iter().any(|(_, is_visible)| *is_visible) {
                println!("{name}: {places:?}");
                found.insert((folder.clone(), name.to_owned()));
            }
        }
    }
    let known = SHARED.iter().map(|(folder, name, _)| ((*folder).to_owned(), (*name).to_owned()));
    assert_eq!(found, known.collect());
}

#[test]
fn subjects_are_things_and_verbs_are_plain() {
    let found = |(extension, marks): (&str, &[&str])| {
        files("", extension).iter().flat_map(|file| vague_lines(file, marks)).collect::<Vec<_>>()
    };
    assert_eq!(COMMENTED.into_iter().flat_map(found).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn vague_subjects_and_obscure_verbs_are_found() {
    let [who, .., nobody, _] = VAGUE;
    let mark = COMMENTED[0].1[0];
    let lines = [
        format!("{mark}/ {nobody} asks."),
        format!("fn {who}_asks() {{}}"),
        format!("let a = \"{who}\"; {mark} {who}?"),
        format!("fn a({who}: u8) {{}} {mark} Whole."),
        format!("{mark}/ C{} another limit.", &OBSCURE[0][1..]),
    ];
    let text = lines.join("\n");
    let file = File { path: "a.rs".to_owned(), text };
    let found = vague_lines(&file, &["//"]);
    assert_eq!(found.iter().map(|line| &line[..6]).collect::<Vec<_>>(), ["a.rs:1", "a.rs:2", "a.rs:3", "a.rs:5"]);
}

/// The comments and the names of functions in `file` that have a vague subject or an obscure verb.
fn vague_lines(file: &File, marks: &[&str]) -> Vec<String> {
    let lines = file.text.lines().map(str::trim_start).enumerate();
    let vague = lines.filter(|(_, line)| is_unclear(comment(line, marks)) || is_vague(function(line)));
    vague.map(|(index, line)| format!("{}:{}: {line}", file.path, index + 1)).collect()
}

/// The comment in `line`, or nothing.
fn comment<'a>(line: &'a str, marks: &[&str]) -> &'a str {
    match marks.iter().any(|mark| line.starts_with(mark)) {
        true => line,
        false => line.split_once(" // ").map_or("", |(_, comment)| comment),
    }
}

/// The name of the function that is declared in `line`, or nothing.
fn function(line: &str) -> &str {
    let (before, behind) = line.split_once("fn ").unwrap_or_default();
    let is_declared = before.split_whitespace().all(|word| word.starts_with("pub") || word == "async");
    let end = behind.find(['(', '<']).unwrap_or_default();
    if is_declared { &behind[..end] } else { "" }
}

fn is_unclear(comment: &str) -> bool {
    let lower = comment.to_lowercase();
    is_vague(comment) || OBSCURE.iter().any(|verb| lower.contains(verb))
}

fn is_vague(said: &str) -> bool {
    let mut words = said.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase);
    words.any(|word| VAGUE.contains(&word.as_str()))
}
