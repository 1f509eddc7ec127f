//! What each package may know of the others.

use crate::{dependencies, manifest};
use rampmeter_tests::repository::{file, files};
use std::collections::{BTreeMap, BTreeSet};

/// The most names of the SDK's root, so that they fit on one screen of its documentation.
const MAX_SDK_NAMES: usize = 12;

/// Our packages from the top down: each may depend only on those behind it.
const ORDER: &[&str] = &[
    "scheduler",
    "scheduler/front",
    "scheduler/serve",
    "scheduler/config",
    "scheduler/store",
    "scheduler/account",
    "proxy",
    "jobs",
    "worker-sdk",
    "simulator",
    "scheduler/discovery",
    "scheduler/dialects",
    "scheduler/core",
    "worker-sdk/session",
    "scheduler/nats-server",
    "simulator/upstream",
    "sentinel-hub",
    "telemetry",
    "listener",
    "protocol/nats",
    "protocol",
];
/// Packages that depend on any of them.
const ABOVE: [&str; 2] = ["tests", "tests/bench"];
/// Packages of workers, and those of the scheduler that know none of them: what both share is in
/// `protocol`, or in the session, which the front drives.
const WORKERS: [&str; 3] = ["rampmeter-worker-sdk", "rampmeter-jobs", "rampmeter-proxy"];
const SERVERS: [&str; 6] = ["core", "dialects", "discovery", "account", "store", "serve"];

fn ours(package: &str) -> Vec<String> {
    let mut found = dependencies(package, "dependencies");
    found.retain(|dependency| dependency.starts_with("rampmeter"));
    found
}

/// The names that `text`, the root of a library, shows to its users.
fn public_names(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for statement in text.split_inclusive([';', '{']) {
        let code = statement.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        let Some((_, item)) = code.split_once("pub ") else { continue };
        match item.trim_end_matches(';').split_once("::{") {
            Some(_) => panic!("one name a line: {item}"),
            None => found.extend(item.trim_end_matches([';', '{']).split([':', ' ']).next_back().map(str::to_owned)),
        }
    }
    found
}

#[test]
fn the_root_of_the_sdk_has_few_names() {
    let names = public_names(&file("worker-sdk/src/lib.rs").unwrap().text);
    assert!(names.contains("Client") && names.contains("policy"), "{names:?}");
    assert!(names.len() <= MAX_SDK_NAMES, "{} names, at most {MAX_SDK_NAMES}: {names:?}", names.len());
}

#[test]
fn workers_need_nothing_of_the_scheduler() {
    assert_eq!(ours("worker-sdk"), ["rampmeter-nats", "rampmeter-protocol", "rampmeter-worker-session"]);
    assert_eq!(ours("worker-sdk/session"), ["rampmeter-protocol"]);
    assert_eq!(ours("jobs"), ["rampmeter-nats", "rampmeter-protocol", "rampmeter-worker-sdk"]);
    assert_eq!(ours("sentinel-hub"), ["rampmeter-protocol"]);
}

/// The wheel of the Python package needs a copy of its own.
#[test]
fn the_proxy_and_the_python_package_have_one_table_of_models() {
    let table = |path| file(path).unwrap().text;
    assert!(table("proxy/models.json") == table("python/src/rampmeter/_model/models.json"), "copy one over the other");
}

#[test]
fn packages_depend_downwards() {
    let workspace = manifest(".");
    let folders = workspace["workspace"]["dependencies"].as_table().unwrap().iter();
    let folders: BTreeMap<&str, &str> =
        folders.filter_map(|(name, about)| Some((name.as_str(), about.get("path")?.as_str()?))).collect();
    let place = |folder: &str| ORDER.iter().position(|each| *each == folder);
    for member in workspace["workspace"]["members"].as_array().unwrap().iter().map(|member| member.as_str().unwrap()) {
        assert!(place(member).is_some() != ABOVE.contains(&member), "{member} has no place in the order");
        for below in ours(member).iter().filter(|_| !ABOVE.contains(&member)) {
            assert!(place(folders[below.as_str()]) > place(member), "{member} depends upwards, on {below}");
        }
    }
}

#[test]
fn the_running_scheduler_knows_no_worker() {
    for folder in SERVERS {
        let found = ours(&format!("scheduler/{folder}"));
        assert!(!found.iter().any(|name| WORKERS.contains(&name.as_str())), "scheduler/{folder}: {found:?}");
    }
}

/// The simulator plays the part of the SDK's connection itself.
#[test]
fn the_simulator_takes_only_the_session_of_the_sdk() {
    assert!(!ours("simulator").contains(&"rampmeter-worker-sdk".to_owned()));
}

/// The session only decides. Its driver does all input and output.
#[test]
fn the_session_does_no_input_or_output() {
    for file in files("worker-sdk/session/src", "rs") {
        for doing in ["tokio", "async fn", "std::thread", "std::net", "Instant::now", "SystemTime", "RandomState"] {
            assert!(!file.text.contains(doing), "{}: {doing}", file.path);
        }
    }
}

/// Without features the SDK needs only these packages.
#[test]
fn a_worker_without_features_needs_little() {
    let manifest = manifest("worker-sdk");
    let is_optional =
        |name: &String| manifest["dependencies"][name].get("optional").and_then(toml::Value::as_bool) == Some(true);
    let mut needed = dependencies("worker-sdk", "dependencies");
    needed.retain(|name| !is_optional(name));
    let expected = [
        "async-nats",
        "bytes",
        "futures",
        "http",
        "rampmeter-nats",
        "rampmeter-protocol",
        "rampmeter-worker-session",
        "thiserror",
        "tokio",
        "tracing",
    ];
    assert_eq!(needed, expected);
    assert_eq!(manifest["features"].get("default"), None);
}
