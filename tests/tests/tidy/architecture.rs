//! `ARCHITECTURE.md` describes the repository as it is.

use rampmeter_tests::repository::{self, file, files};
use std::collections::BTreeSet;

/// The page has each package, each folder of its sources, and those of the running scheduler.
#[test]
fn the_tree_is_the_real_one() {
    let text = file("ARCHITECTURE.md").unwrap().text;
    let (_, tree) = text.split_once("## The tree").unwrap();
    let mut package = "";
    let mut shown = BTreeSet::new();
    for line in tree.split("```").nth(1).unwrap().lines().filter(|line| !line.is_empty()) {
        let (path, about) = line.trim_start().split_once(' ').unwrap_or_else(|| panic!("{line}: says nothing"));
        assert!(!about.trim().is_empty(), "{line}: says nothing");
        let path = match line.starts_with(' ') {
            true => format!("{package}{path}"),
            false => {
                package = path;
                path.to_owned()
            }
        };
        for path in expanded(&path) {
            assert!(repository::root().join(&path).is_dir(), "{path} is no folder");
            assert!(shown.insert(path), "{line}: twice");
        }
    }
    for folder in folders_to_be_shown() {
        assert!(shown.contains(&folder), "{folder} is not in the tree");
    }
}

/// The paths that `a{b,c}d` stands for, as shells read it.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, (names, after))) = path.split_once('{').and_then(|(a, b)| Some((a, b.split_once('}')?))) else {
        return vec![path.to_owned()];
    };
    names.split(',').map(|name| format!("{before}{name}{after}")).collect()
}

fn folders_to_be_shown() -> Vec<String> {
    let manifests = files("", "toml").into_iter().map(|manifest| manifest.path);
    let packages = manifests.filter_map(|path| Some(path.strip_suffix("Cargo.toml")?.to_owned()));
    let packages: Vec<String> = packages.filter(|path| !path.is_empty()).collect();
    let sources = packages.iter().map(|package| format!("{package}src/"));
    let parents = sources.chain(["scheduler/serve/src/".to_owned()]);
    let below = parents.flat_map(|parent| {
        let entries = std::fs::read_dir(repository::root().join(&parent)).unwrap().map(Result::unwrap);
        let folders = entries.filter(|entry| entry.path().is_dir());
        folders.map(move |folder| format!("{parent}{}/", folder.file_name().to_string_lossy())).collect::<Vec<_>>()
    });
    let below: Vec<String> = below.collect();
    packages.into_iter().chain(below).collect()
}

#[test]
fn files_that_are_named_exist() {
    let text = file("ARCHITECTURE.md").unwrap().text;
    let named: Vec<&str> = text.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs")).collect();
    assert!(!named.is_empty(), "ARCHITECTURE.md names no file");
    for name in named {
        assert!(repository::root().join(name).is_file(), "ARCHITECTURE.md: {name} does not exist");
    }
}
