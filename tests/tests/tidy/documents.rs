//! What documents show exists: commands, configuration, messages, files.

use clap::Parser;
use rampmeter_config as config;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Settle;
use rampmeter_scheduler::cli::Cli;
use rampmeter_tests::repository::{self, File, file, files};
use std::collections::BTreeSet;
use std::path::Path;

/// What a user reads.
fn pages() -> Vec<File> {
    let root = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(|path| file(path).expect(path));
    root.into_iter().chain(files("docs", "md")).collect()
}

/// The fenced blocks in `language`, of all pages.
fn blocks(language: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for File { path, text } in pages() {
        let blocks = text.split("```").skip(1).step_by(2);
        let blocks = blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
        found.extend(blocks.map(|block| (path.clone(), block.to_owned())));
    }
    assert!(!found.is_empty(), "no page shows {language}");
    found
}

#[test]
fn the_python_that_is_shown_is_tested() {
    let worker = file("tests/python/worker.py").unwrap().text;
    let shown = file("docs/workers.md").unwrap().text;
    assert!(shown.contains(worker.trim()), "docs/workers.md shows another text than tests/python/worker.py");
}

/// README's Rust worker equals `worker-sdk/examples/worker.rs` from the first `use` on.
#[test]
fn the_rust_that_is_shown_is_an_example() {
    let example = file("worker-sdk/examples/worker.rs").unwrap().text;
    let (_, code) = example.split_once("\nuse ").unwrap();
    let shown = file("README.md").unwrap().text;
    let expected = format!("```rust\nuse {}\n```", code.trim_end());
    assert!(shown.contains(&expected), "README.md shows another text than worker-sdk/examples/worker.rs");
}

/// What a worker's `Cargo.toml` has to have, according to the pages.
#[test]
fn dependencies_that_are_shown_exist() {
    let workspace = manifest_at("Cargo.toml");
    let versions = &workspace["workspace"]["dependencies"];
    let mut found = 0;
    for (path, block) in blocks("toml").into_iter().filter(|(_, block)| is_manifest(block)) {
        let shown: toml::Table = block.parse().unwrap();
        for (name, dependency) in shown["dependencies"].as_table().unwrap() {
            let known = versions.get(name).unwrap_or_else(|| panic!("{path}: no package of ours needs {name}"));
            match known.get("path").and_then(toml::Value::as_str) {
                Some(folder) => check_own(&path, folder, dependency),
                None => assert_eq!(version(dependency), version(known), "{path}: {name}"),
            }
            found += 1;
        }
    }
    assert!(found >= 3, "the pages show no dependencies");
}

fn is_manifest(block: &str) -> bool {
    block.starts_with("[dependencies]")
}

fn manifest_at(path: &str) -> toml::Table {
    file(path).unwrap().text.parse().unwrap()
}

/// The version that a dependency asks for.
fn version(dependency: &toml::Value) -> Option<&str> {
    dependency.as_str().or_else(|| dependency.get("version")?.as_str())
}

/// A package of this repository is in this folder and has the features that are shown.
fn check_own(page: &str, folder: &str, shown: &toml::Value) {
    let path = shown["path"].as_str().unwrap();
    assert!(path.ends_with(&format!("rampmeter/{folder}")), "{page}: {path} is not in {folder}");
    let manifest = manifest_at(&format!("{folder}/Cargo.toml"));
    for feature in shown["features"].as_array().unwrap() {
        let feature = feature.as_str().unwrap();
        assert!(manifest["features"].get(feature).is_some(), "{page}: {folder} has no feature {feature}");
    }
}

/// `cargo run … --example NAME` names the package and the features that the example needs.
#[test]
fn examples_run_as_printed() {
    let mut found = BTreeSet::new();
    for File { path, text } in pages().into_iter().chain(files("worker-sdk", "rs")).chain(files("jobs", "rs")) {
        let text = text.replace("\n//!", "");
        for command in text.split("cargo run ").skip(1).filter_map(|rest| rest.split(['`', '\n', '#']).next()) {
            if let Some(example) = after(command, "--example") {
                check_example(&path, command, example);
                found.insert(example.to_owned());
            }
        }
    }
    let examples = files("", "rs").into_iter().filter(|file| file.path.contains("/examples/"));
    let there = examples.map(|file| Path::new(&file.path).file_stem().unwrap().to_str().unwrap().to_owned());
    assert_eq!(found, there.collect(), "each example says how to run it");
}

fn check_example(page: &str, command: &str, example: &str) {
    let package = after(command, "-p").unwrap_or_else(|| panic!("{page}: {command}: no `-p`"));
    let folder = manifest_at("Cargo.toml")["workspace"]["dependencies"][package]["path"].as_str().unwrap().to_owned();
    assert!(file(&format!("{folder}/examples/{example}.rs")).is_some(), "{page}: {package} has no {example}");
    let manifest = manifest_at(&format!("{folder}/Cargo.toml"));
    let declared = manifest.get("example").and_then(toml::Value::as_array).into_iter().flatten();
    let declared = declared.filter(|declared| declared["name"].as_str() == Some(example));
    let needed = declared.flat_map(|declared| declared["required-features"].as_array().unwrap());
    let needed: Vec<&str> = needed.map(|feature| feature.as_str().unwrap()).collect();
    let given: Vec<&str> = after(command, "--features").into_iter().flat_map(|list| list.split(',')).collect();
    assert_eq!(given, needed, "{page}: {command}");
}

/// The word behind an option.
fn after<'a>(command: &'a str, option: &str) -> Option<&'a str> {
    command.split_whitespace().skip_while(|word| *word != option).nth(1)
}

/// Every `rampmeter …` is a command that there is, with options that it has.
#[test]
fn commands_exist() {
    let mut found = 0;
    for (path, block) in blocks("sh") {
        for line in block.lines() {
            let command = line.split(['#', '>']).next().unwrap();
            let arguments =
                command.strip_prefix("rampmeter ").or_else(|| command.strip_prefix("cargo run --release -- "));
            if let Some(arguments) = arguments {
                let parsed = Cli::try_parse_from(["rampmeter"].into_iter().chain(arguments.split_whitespace()));
                parsed.map(drop).unwrap_or_else(|error| panic!("{path}: {line}\n{error}"));
                found += 1;
            }
        }
    }
    assert!(found > 1, "the pages show no command");
}

#[test]
fn configurations_are_valid() {
    for (path, block) in blocks("toml").into_iter().filter(|(_, block)| !is_manifest(block)) {
        let file = Path::new(&path);
        let read = match block.starts_with("[[token]]") {
            true => config::parse_tokens(file, &block).map(drop),
            false => config::parse(file, &block).map(drop),
        };
        read.unwrap_or_else(|error| panic!("{path}: {error}\n{block}"));
    }
}

#[test]
fn messages_are_valid() {
    let mut found = 0;
    for (path, block) in blocks("sh") {
        for line in block.lines() {
            let call = line.split_once("nats req ").and_then(|(_, call)| call.split_once(" '"));
            let Some((subject, message)) = call else { continue };
            let message = message.trim_end_matches('\'');
            let read = match subject.contains(".permit.") {
                true => serde_json::from_str::<PermitRequest>(message).map(drop),
                false => serde_json::from_str::<Settle>(message).map(drop),
            };
            read.unwrap_or_else(|error| panic!("{path}: {line}\n{error}"));
            found += 1;
        }
    }
    assert!(found > 0, "the pages show no message");
}

#[test]
fn links_lead_to_files_and_headings() {
    for File { path, text } in pages() {
        let folder = Path::new(&path).parent().unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") {
                continue;
            }
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if target.is_empty() {
                repository::root().join(&path)
            } else {
                repository::root().join(folder).join(target)
            };
            assert!(target.exists(), "{path}: {link}");
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap();
                let headings = text.lines().filter(|line| line.starts_with('#')).map(anchor_of);
                assert!(headings.collect::<BTreeSet<_>>().contains(anchor), "{path}: {link}");
            }
        }
    }
}

/// The anchor that a heading has on the usual hosts.
fn anchor_of(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Each row of a table whose last column is `test` names tests, as `file::function`.
#[test]
fn tests_that_show_guarantees_exist() {
    let sources = files("", "rs");
    for page in ["SECURITY.md", "docs/guarantees.md"] {
        let shown = tests_shown_in(page);
        assert!(!shown.is_empty(), "{page} names no test");
        shown.iter().for_each(|name| assert!(is_test(&sources, name), "{page}: {name} does not exist"));
    }
}

/// The tests that the rows of a page name.
fn tests_shown_in(page: &str) -> Vec<String> {
    let text = file(page).expect(page).text;
    let (mut is_shown, mut shown) = (false, vec![]);
    for line in text.lines() {
        is_shown = line.ends_with("| test |") || is_shown && line.starts_with('|');
        if !is_shown || line.ends_with("| test |") || line.starts_with("|--") {
            continue;
        }
        let tests = line.trim_end_matches('|').rsplit(" | ").next().unwrap();
        let names: Vec<String> = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert!(!names.is_empty(), "{page}: {line}: no test");
        shown.extend(names);
    }
    shown
}

fn is_test(sources: &[File], name: &str) -> bool {
    let (file, function) = name.split_once("::").unwrap_or_else(|| panic!("{name}: no file"));
    let mut of_file = sources.iter().filter(|source| source.path.ends_with(&format!("/{file}.rs")));
    // A function, or the name of a script.
    let declared = [format!("fn {function}("), format!("\n    {function}: "), format!("\n    {function}(")];
    of_file.any(|source| declared.iter().any(|declared| source.text.contains(declared)))
}

#[test]
fn every_scenario_is_listed() {
    let listed = file("docs/simulation.md").unwrap().text;
    let rows = listed.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: BTreeSet<String> = rows.filter(|row| row.ends_with(".toml")).map(str::to_owned).collect();
    let scenarios = files("simulator/scenarios", "toml").into_iter();
    let there: BTreeSet<String> = scenarios.map(|file| file.path.rsplit('/').next().unwrap().to_owned()).collect();
    assert_eq!(rows, there);
}
