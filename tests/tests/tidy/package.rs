//! A package as modules that import each other.

use crate::module::{Import, Module, Segments};
use rampmeter_tests::repository::{File, file, files};
use std::collections::{BTreeMap, BTreeSet};

/// The most imports in a chain that is followed. A longer chain goes in a circle.
const MAX_HOPS: usize = 16;

/// The library of a package, or the binary of one that has no library.
pub(crate) struct Package {
    modules: BTreeMap<Segments, (String, Module)>,
}

/// A file, and a file that it needs.
pub(crate) type Edge = (String, String);

/// All packages of the workspace, by the folder of their sources.
pub(crate) fn packages() -> Vec<(String, Package)> {
    let manifest: toml::Table = file("Cargo.toml").unwrap().text.parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap().iter();
    let folders = members.map(|member| format!("{}/src", member.as_str().unwrap()));
    folders.map(|folder| (folder.clone(), Package::new(&folder, files(&folder, "rs")))).collect()
}

impl Package {
    /// Reads the package whose root is in `folder`.
    pub(crate) fn new(folder: &str, files: Vec<File>) -> Self {
        let files: BTreeMap<_, _> = files.into_iter().map(|file| (file.path, file.text)).collect();
        let mut package = Self { modules: BTreeMap::new() };
        let root = ["lib.rs", "main.rs"].map(|name| format!("{folder}/{name}"));
        let root = root.into_iter().find(|path| files.contains_key(path)).expect(folder);
        package.add(&files, Segments::new(), Module::read(&files[&root]), &root, folder);
        package
    }

    /// Adds a module of the file at `path`, and its children, which are in `folder`.
    fn add(&mut self, files: &BTreeMap<String, String>, at: Segments, module: Module, path: &str, folder: &str) {
        for name in &module.children {
            let below = format!("{folder}/{name}");
            let paths = [format!("{below}.rs"), format!("{below}/mod.rs")];
            let path = paths.into_iter().find(|path| files.contains_key(path)).expect(&below);
            self.add(files, join(&at, name), Module::read(&files[&path]), &path, &below);
        }
        self.modules.insert(at, (path.to_owned(), module));
    }

    /// Which file needs which other. A re-export leads to the file that defines the name.
    pub(crate) fn edges(&self) -> BTreeSet<Edge> {
        let mut edges = BTreeSet::new();
        for (at, (from, module)) in &self.modules {
            let imports = module.imports.iter().filter(|import| is_used(module, import));
            let imported = imports.filter_map(|import| self.absolute(at, &import.path));
            let mentioned = module.mentions.iter().filter_map(|path| self.mentioned(at, module, path));
            let needed = imported.chain(mentioned).flat_map(|path| self.defining(&path, MAX_HOPS));
            edges.extend(needed.filter(|to| to != from).map(|to| (from.clone(), to)));
        }
        edges
    }

    /// The path from the package's root, or nothing if it leads out of the package.
    fn absolute(&self, at: &[String], path: &[String]) -> Option<Segments> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([at, rest].concat()),
            "super" => {
                let above = &at[..at.len().checked_sub(1)?];
                match rest.first().is_some_and(|next| next == "super") {
                    true => self.absolute(above, rest),
                    false => Some([above, rest].concat()),
                }
            }
            name => self.modules.contains_key(&join(at, name)).then(|| [at, path].concat()),
        }
    }

    /// Like [`absolute`](Self::absolute), for a path that may begin with an imported name.
    fn mentioned(&self, at: &[String], module: &Module, path: &[String]) -> Option<Segments> {
        let import = module.imports.iter().find(|import| import.name == path[0]);
        match import {
            Some(import) => Some([self.absolute(at, &import.path)?.as_slice(), &path[1..]].concat()),
            None => self.absolute(at, path),
        }
    }

    /// The files that define what `path` means: none for a module, several for a `*`.
    fn defining(&self, path: &[String], hops: usize) -> Vec<String> {
        let mut at = Segments::new();
        for (index, name) in path.iter().enumerate() {
            let (file, module) = &self.modules[&at];
            let rest = &path[index + 1..];
            let is_last = rest.is_empty();
            if name == "*" {
                return self.everything_of(&at, hops);
            }
            let below = join(&at, name);
            if self.modules.contains_key(&below) && !(is_last && module.items.contains(name)) {
                at = below;
                continue;
            }
            if module.items.contains(name) || hops == 0 {
                return vec![file.clone()];
            }
            return self.imported(&at, name, rest, hops).unwrap_or_else(|| vec![file.clone()]);
        }
        Vec::new()
    }

    /// Where the name leads that the module at `at` imports.
    fn imported(&self, at: &[String], name: &str, rest: &[String], hops: usize) -> Option<Vec<String>> {
        let (_, module) = &self.modules[at];
        let named = module.imports.iter().filter(|import| import.name == name);
        let globs = module.imports.iter().filter(|import| import.name == "*");
        let globs = globs.filter_map(|import| {
            let mut path = self.absolute(at, &import.path)?;
            path.pop();
            let found = self.modules.get(&path).is_some_and(|(_, module)| knows(module, name));
            found.then(|| join(&path, name))
        });
        let mut paths = named.filter_map(|import| self.absolute(at, &import.path)).chain(globs);
        let path = paths.next()?;
        Some(self.defining(&[path.as_slice(), rest].concat(), hops - 1))
    }

    fn everything_of(&self, at: &[String], hops: usize) -> Vec<String> {
        let (file, module) = &self.modules[at];
        if hops == 0 {
            return vec![file.clone()];
        }
        let visible = module.imports.iter().filter(|import| import.is_visible);
        let paths = visible.filter_map(|import| self.absolute(at, &import.path));
        let beyond = paths.flat_map(|path| self.defining(&path, hops - 1));
        let own = (!module.items.is_empty()).then(|| file.clone());
        own.into_iter().chain(beyond).collect()
    }
}

fn knows(module: &Module, name: &str) -> bool {
    module.items.contains(name) || module.imports.iter().any(|import| import.name == name)
}

/// Whether the module needs what it imports, and does not only pass it on.
fn is_used(module: &Module, import: &Import) -> bool {
    !import.is_visible || module.words.contains(&import.name)
}

fn join(at: &[String], name: &str) -> Segments {
    at.iter().cloned().chain([name.to_owned()]).collect()
}
