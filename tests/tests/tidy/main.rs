//! Rules of this repository that no compiler keeps.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

mod architecture;
mod bounds;
mod documents;
mod layers;
mod memory;
mod module;
mod package;
mod packages;
mod supply;

use rampmeter_config as config;
use rampmeter_tests::repository::{self, File, file, files};
use std::collections::BTreeSet;
use std::path::Path;

/// The most lines of a file. A longer one has more than one subject.
const MAX_LINES: usize = 500;
/// The most lines of a file of tests, whose tables and scenarios belong together.
const MAX_TEST_LINES: usize = 700;

/// The sources of packages that only decide or read.
const PURE: [&str; 4] =
    ["scheduler/core/src", "scheduler/policy/src", "scheduler/dialects/src", "scheduler/discovery/src"];

/// The only file of test code that may sleep: its functions take the reason.
const SLEEPING_FILE: &str = "tests/src/patience.rs";

fn is_test(file: &File) -> bool {
    file.path.starts_with("tests/") || file.path.contains("/tests/")
}

/// The part of `file` that runs only in tests: all of a test file, and what follows `#[cfg(test)]`
/// elsewhere.
fn test_code(file: &File) -> &str {
    match is_test(file) {
        true => &file.text,
        false => file.text.split_once("#[cfg(test)]").map_or("", |(_, tests)| tests),
    }
}

fn manifest(package: &str) -> toml::Table {
    file(&format!("{package}/Cargo.toml")).unwrap().text.parse().unwrap()
}

fn dependencies(package: &str, table: &str) -> Vec<String> {
    let manifest = manifest(package);
    let table = manifest.get(table).and_then(toml::Value::as_table);
    table.map(|table| table.keys().cloned().collect()).unwrap_or_default()
}

#[test]
fn no_file_is_longer_than_its_reader() {
    for file in files("", "rs") {
        let most = if is_test(&file) { MAX_TEST_LINES } else { MAX_LINES };
        let lines = file.text.lines().count();
        assert!(lines <= most, "{}: {lines} lines, at most {most}", file.path);
    }
}

#[test]
fn no_test_is_ignored() {
    let ignore = concat!("#[ig", "nore");
    for file in files("", "rs") {
        assert!(!file.text.contains(ignore), "{}", file.path);
    }
}

/// Property tests of `A/tests/B/C.rs` read their seeds from `A/tests/proptest-regressions/C.txt`,
/// and those of `A/src/C.rs` from `A/proptest-regressions/C.txt`.
#[test]
fn seeds_of_property_tests_lie_where_they_are_read() {
    const FOLDER: &str = "proptest-regressions/";
    let sources = files("", "rs");
    let is_root = |folder: &str| ["main.rs", "lib.rs"].iter().any(|root| file(&format!("{folder}{root}")).is_some());
    let reads = |source: &File, above: &str, name: &str| {
        let folder = source.path.strip_prefix(above).and_then(|path| path.strip_suffix(&format!("{name}.rs")));
        let is_below = folder.is_some_and(|folder| folder.split_terminator('/').count() == 1);
        is_below && is_root(&format!("{above}{}", folder.unwrap_or_default())) && source.text.contains("proptest!")
    };
    for seeds in files("", "txt").iter().chain(&files("", "proptest-regressions")) {
        let Some((above, name)) = seeds.path.split_once(FOLDER) else {
            assert!(!seeds.path.ends_with("proptest-regressions"), "{}: proptest does not read this", seeds.path);
            continue;
        };
        let name = name.trim_end_matches(".txt");
        assert!(sources.iter().any(|source| reads(source, above, name)), "{}: proptest does not read this", seeds.path);
    }
}

#[test]
fn no_test_sleeps_for_luck() {
    let sleeps = [concat!("sleep", "("), concat!("sleep_", "until(")];
    for file in files("", "rs").iter().filter(|file| file.path != SLEEPING_FILE) {
        for sleep in sleeps {
            assert!(!test_code(file).contains(sleep), "{}: use rampmeter_tests::patience", file.path);
        }
    }
}

#[test]
fn no_test_binds_a_port_of_its_own() {
    let usual = [concat!("127.0.0.1:", "4222"), concat!("127.0.0.1:", "9480"), concat!("127.0.0.1:", "9490")];
    for file in files("", "rs") {
        for port in usual {
            assert!(!test_code(&file).contains(port), "{}: {port}", file.path);
        }
    }
}

#[test]
fn the_core_depends_on_next_to_nothing() {
    let allowed = ["hashbrown", "rampmeter-policy", "rampmeter-protocol", "serde", "serde_json", "smallvec"];
    assert_eq!(dependencies("scheduler/core", "dependencies"), allowed);
    let allowed = ["jiff", "rampmeter-protocol", "regex", "serde", "smallvec", "thiserror"];
    assert_eq!(dependencies("scheduler/policy", "dependencies"), allowed);
}

/// Methods that iterate over hash tables are for clippy, which does not see a loop over the table
/// itself.
#[test]
fn no_loop_of_the_core_runs_in_the_order_of_a_hash_table() {
    for file in ["scheduler/core/src", "scheduler/policy/src"].iter().flat_map(|folder| files(folder, "rs")) {
        assert_eq!(loops_over_hash_tables(&file.text), [], "{}: its order is random; take a BTreeMap", file.path);
    }
    let text = "struct S { by_id: HashMap<A, B>, in_order: BTreeMap<A, B> }
        for each in &self.by_id {
        for each in &mut self.in_order {
        let seen = HashSet::new();
        for each in seen {";
    let found: Vec<&str> = loops_over_hash_tables(text).into_iter().map(|(_, table)| table).collect();
    assert_eq!(found, ["by_id", "seen"]);
}

/// Loops over a field or variable that is declared as a hash table in the same file.
fn loops_over_hash_tables(text: &str) -> Vec<(&str, &str)> {
    let tables = ["HashMap", "HashSet", "HashTable"]
        .into_iter()
        .flat_map(|table| text.match_indices(table).map(|(at, _)| text[..at].trim_end_matches([' ', ':', '='])));
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let names: BTreeSet<&str> = tables.filter_map(|before| before.rsplit(|letter| !is_word(letter)).next()).collect();
    let loops = text.lines().filter_map(|line| line.trim().strip_prefix("for ")?.split_once(" in "));
    let walked = loops.map(|(_, walked)| walked.trim_end_matches([' ', '{']));
    walked.filter_map(|walked| Some((walked, *names.get(walked.rsplit([' ', '.', '&']).next()?)?))).collect()
}

/// Texts that the sources in these folders do not have, but for a file, and what keeps to that.
#[test]
fn packages_keep_to_their_own_matters() {
    #[rustfmt::skip]
    let table: &[(&[&str], &str, &[&str], &str)] = &[
        (&PURE,                     "",                         &["tokio", "async fn", ".await", "std::time", "std::thread", "std::fs", "std::net", "SystemTime", "rand::"], "they do no input or output"),
        (&["worker-sdk/session/src"], "",                       &["tokio", "async fn", "std::thread", "std::net", "Instant::now", "SystemTime", "RandomState"], "its driver does all input and output"),
        (&["protocol/src"],         "protocol/src/clock.rs",    &["Instant::now", "SystemTime::now", "async fn", "tokio"], "it decides nothing, and asks the time in one place"),
        (&["jobs/src"],             "",                         &["unix_ms", "SystemTime", "DateTime", "OffsetDateTime", "Nats-Schedule"], "the clocks of workers may differ by any time"),
        (&["scheduler/core/src", "scheduler/policy/src", "scheduler/discovery/src"], "", &[".powi(", ".powf(", ".exp(", ".exp2(", ".ln(", ".log2(", ".log10("], "what these return depends on the platform"),
        (&["simulator/upstream"],   "",                         &["rampmeter_protocol", "rampmeter_scheduler", "rampmeter_worker_sdk"], "the upstream judges the scheduler"),
    ];
    for (folders, except, texts, why) in table {
        for file in folders.iter().flat_map(|folder| files(folder, "rs")).filter(|file| file.path != *except) {
            for text in *texts {
                assert!(!file.text.contains(text), "{}: {text}; {why}", file.path);
            }
        }
    }
    // The package `protocol` contains the clock, so no manifest keeps the clock from these packages.
    for file in PURE.iter().chain(&["worker-sdk/session/src", "simulator/src"]).flat_map(|folder| files(folder, "rs")) {
        let product = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(!product.contains("rampmeter_protocol::clock"), "{}: time is an argument", file.path);
    }
}

/// The upstream judges the scheduler, so the two share no code.
#[test]
fn the_upstream_knows_nothing_of_the_scheduler() {
    for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let found = dependencies("simulator/upstream", table);
        assert!(!found.iter().any(|dependency| dependency.starts_with("rampmeter")), "{table}: {found:?}");
    }
}

/// A judge takes only the configuration from the core, and counts by itself.
#[test]
fn the_judge_of_the_simulator_shares_no_arithmetic_with_the_core() {
    for file in files("simulator/src/judge", "rs") {
        for used in file.text.split("rampmeter_scheduler_core::").skip(1) {
            let used = used.lines().next().unwrap_or_default();
            assert!(used.starts_with("policy::spec::"), "{}: {used}", file.path);
        }
    }
}

#[test]
fn the_judge_of_the_fire_drills_stands_alone() {
    let judge = file("tests/src/drills/judge.rs").unwrap().text;
    assert!(!judge.contains("rampmeter") && !judge.contains("crate::"), "tests/src/drills/judge.rs");
}

/// Versions, lints and profiles are said once, at the root.
#[test]
fn packages_take_versions_and_lints_from_the_workspace() {
    for manifest in files("", "toml").into_iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let table: toml::Table = manifest.text.parse().unwrap();
        assert_eq!(table["lints"]["workspace"].as_bool(), Some(true), "{}", manifest.path);
        assert_eq!(table["package"]["version"]["workspace"].as_bool(), Some(true), "{}", manifest.path);
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let dependencies = table.get(kind).and_then(toml::Value::as_table).into_iter().flatten();
            for (name, dependency) in dependencies {
                let inherited = dependency.get("workspace").and_then(toml::Value::as_bool) == Some(true);
                assert!(inherited, "{}: {name} has a version of its own", manifest.path);
            }
        }
    }
}

#[test]
fn every_configuration_that_is_shipped_is_valid() {
    let mut found = 0;
    for file in files("deploy", "toml") {
        config::parse(Path::new(&file.path), &file.text).unwrap_or_else(|error| panic!("{error}"));
        found += 1;
    }
    assert!(found >= 3, "rampmeter.toml and those of compose.yaml");
}

#[test]
fn every_fault_that_is_to_be_planted_has_its_place() {
    let plant = repository::root().join("tests/faults/plant.py");
    let checked = std::process::Command::new("python3").arg(plant).arg("--check").output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn the_changelog_knows_the_version() {
    let Some(changelog) = file("CHANGELOG.md") else { return };
    let version = env!("CARGO_PKG_VERSION");
    assert!(changelog.text.lines().any(|line| line.starts_with("## ") && line.contains(version)), "{version}");
}
