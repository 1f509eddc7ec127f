//! What each package may know of the others.

use crate::{dependencies, manifest};
use rampmeter_tests::repository::file;
use std::collections::BTreeMap;

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
    "scheduler/policy",
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
const SERVERS: [&str; 7] = ["core", "policy", "dialects", "discovery", "account", "store", "serve"];

fn ours(package: &str) -> Vec<String> {
    let mut found = dependencies(package, "dependencies");
    found.retain(|dependency| dependency.starts_with("rampmeter"));
    found
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
    let text = |folder: &str, name: &str| file(&format!("{folder}/{name}")).unwrap().text;
    for name in ["models.json", "prices.json"] {
        let copy = text("python/src/rampmeter/_model", name);
        assert!(text("proxy", name) == copy, "{name}: copy one over the other");
    }
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

/// Licences ask for their texts, and the example of a page is tested by the package's own documentation.
#[test]
fn published_packages_have_licences_and_a_page() {
    let workspace = manifest(".");
    let members = workspace["workspace"]["members"].as_array().unwrap().iter().map(|member| member.as_str().unwrap());
    let is_published = |member: &&str| manifest(member)["package"]["publish"].as_bool() == Some(true);
    let published: Vec<&str> = members.filter(is_published).collect();
    assert_eq!(published, ["protocol", "protocol/nats", "worker-sdk", "worker-sdk/session"]);
    let text = |path: &str| file(path).unwrap_or_else(|| panic!("{path}")).text;
    for package in published {
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(text(&format!("{package}/{licence}")) == text(licence), "{package}: another {licence}");
        }
        assert!(text(&format!("{package}/README.md")).contains("```rust"), "{package}: its page shows nothing");
        let tested = "#[doc = include_str!(\"../README.md\")]";
        assert!(text(&format!("{package}/src/lib.rs")).contains(tested), "{package}: nothing tests its page");
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
