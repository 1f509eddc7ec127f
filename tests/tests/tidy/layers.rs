//! Imports go one way: between folders downwards, between files in no circle. Each exception is
//! listed with its reason.

use crate::package::{Edge, packages};
use rampmeter_tests::repository::files;
use std::collections::{BTreeMap, BTreeSet};

/// The folders of a folder from the top down: each may import those behind it. An import through a
/// file beside the folders counts like an import.
const LAYERS: &[(&str, &[&str])] = &[
    ("protocol/src", &["operator", "worker", "value"]),
    ("proxy/src", &["exchange", "checked_stream", "pool"]),
    (
        "scheduler/core/src",
        &[
            "views",
            "durability",
            "scheduler",
            "permits",
            "fencing",
            "queue",
            "ledger",
            "adaptation",
            "limits",
            "collections",
        ],
    ),
    (
        "scheduler/src/commands",
        &["doctor", "demo", "jobs", "proxy", "simulate", "state", "import", "limits", "process", "output"],
    ),
    ("scheduler/config/src", &["proxy", "http", "limits", "reading"]),
    ("scheduler/front/src", &["page", "metrics"]),
    ("scheduler/serve/src", &["leadership", "permits", "limits", "messages", "forecast"]),
    ("scheduler/serve/src/permits", &["incoming", "answers", "watch"]),
    ("simulator/src", &["judge", "run", "results", "workers"]),
    ("simulator/upstream/src", &["http", "preset", "statistics", "counting", "policy"]),
    ("worker-sdk/src", &["middleware", "permit", "connection"]),
    ("worker-sdk/session/src", &["outbox", "asks", "silence", "fallback"]),
    ("jobs/src", &["worker", "store", "lane"]),
    ("tests/src", &["drills", "workers", "schedulers", "servers", "upstreams"]),
    ("sentinel-hub/src", &["body", "evalscript"]),
];

/// The most files of one folder of sources.
const MAX_FILES: usize = 18;

/// Imports without which no circle would be left, and why they may stay: from, to, reason.
const CIRCLES: &[(&str, &str, &str)] = &[
    ("worker-sdk/src/client.rs", "worker-sdk/src/builder.rs", "`Client::builder` begins with its builder"),
    ("jobs/src/queue.rs", "jobs/src/queue_builder.rs", "`Queue::builder` begins with its builder"),
    ("jobs/src/queue.rs", "jobs/src/worker/mod.rs", "`Queue::worker` leads to the worker of the queue"),
    ("worker-sdk/src/permit/mod.rs", "worker-sdk/src/permit/acquire.rs", "a permit that became void asks for another"),
    (
        "worker-sdk/src/resource.rs",
        "worker-sdk/src/permit/acquire.rs",
        "`Resource::acquire` begins a request to the resource",
    ),
];

#[test]
fn every_folder_has_its_layer() {
    let declared = LAYERS
        .iter()
        .map(|(folder, layers)| ((*folder).to_owned(), layers.iter().copied().map(str::to_owned).collect()));
    assert_eq!(folders(), declared.collect());
}

#[test]
fn folders_import_downwards() {
    let edges = all_edges();
    let mut found = BTreeSet::new();
    for (folder, layers) in LAYERS {
        for (importing, imported) in edges.iter().flat_map(|(from, _)| reached(folder, from, &edges)) {
            let place = |name: &str| layers.iter().position(|layer| *layer == name);
            if place(&importing) > place(&imported) {
                found.insert((*folder, importing, imported));
            }
        }
    }
    assert_eq!(found, BTreeSet::new());
}

/// A folder whose files are more than a list is read in one look.
#[test]
fn folders_are_small() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for file in packages().iter().flat_map(|(source, _)| files(source, "rs")) {
        let (folder, _) = file.path.rsplit_once('/').unwrap();
        *counts.entry(folder.to_owned()).or_default() += 1;
    }
    counts.retain(|_, count| *count > MAX_FILES);
    assert_eq!(counts, BTreeMap::new(), "more than {MAX_FILES} files: make folders of subjects");
}

#[test]
fn files_import_each_other_in_no_circle() {
    let mut edges = all_edges();
    for (from, to, _) in CIRCLES {
        let edge = ((*from).to_owned(), (*to).to_owned());
        assert!(edges.remove(&edge), "{from} does not import {to}: this exception is not needed");
    }
    let circle = circle(&edges);
    assert!(circle.is_empty(), "a circle of imports: {circle:#?}");
    for (from, to, _) in CIRCLES {
        let all: BTreeSet<_> = edges.iter().cloned().chain([((*from).to_owned(), (*to).to_owned())]).collect();
        assert!(!self::circle(&all).is_empty(), "{from} imports {to} in no circle: this exception is not needed");
    }
}

fn all_edges() -> BTreeSet<Edge> {
    packages().iter().flat_map(|(_, package)| package.edges()).collect()
}

/// The folders that have more than one folder in them, with those.
fn folders() -> BTreeMap<String, BTreeSet<String>> {
    let mut folders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (source, _) in packages() {
        for file in files(&source, "rs") {
            let path: Vec<&str> = file.path.split('/').collect();
            let first = source.split('/').count();
            for depth in first..path.len() - 1 {
                folders.entry(path[..depth].join("/")).or_default().insert(path[depth].to_owned());
            }
        }
    }
    folders.retain(|folder, below| below.remove("bin") | true && below.len() > 1 && !folder.is_empty());
    folders
}

/// The sibling folders that the file at `from` imports, directly or through files that are in no
/// folder.
fn reached(folder: &str, from: &str, edges: &BTreeSet<Edge>) -> Vec<(String, String)> {
    let Some(importing) = layer(folder, from) else { return Vec::new() };
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for (_, to) in edges.iter().filter(|(from, _)| from == file) {
            match layer(folder, to) {
                Some(imported) if imported != importing => found.push((importing.clone(), imported)),
                None if to.starts_with(folder) && seen.insert(to) => open.push(to),
                Some(_) | None => {}
            }
        }
    }
    found
}

/// The folder directly below `folder` that has the file.
fn layer(folder: &str, file: &str) -> Option<String> {
    let (layer, _) = file.strip_prefix(folder)?.strip_prefix('/')?.split_once('/')?;
    Some(layer.to_owned())
}

/// The imports that are part of a circle: what is imported needs the importing file again.
fn circle(edges: &BTreeSet<Edge>) -> BTreeSet<Edge> {
    let mut needed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in edges {
        needed.entry(from).or_default().push(to);
    }
    edges.iter().filter(|(from, to)| needs(&needed, to, from)).cloned().collect()
}

fn needs(needed: &BTreeMap<&str, Vec<&str>>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        let next = needed.get(file).into_iter().flatten();
        open.extend(next.filter(|next| seen.insert(**next)));
    }
    from != to && seen.contains(to)
}
