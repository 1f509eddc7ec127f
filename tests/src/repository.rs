//! The files of this repository.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Folders with generated files.
const MADE: [&str; 4] = ["target", ".git", "node_modules", "dist"];

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A file and its content.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path from the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// All text files below `folder` of the root whose name ends in `.extension`, by path.
pub fn files(folder: &str, extension: &str) -> Vec<File> {
    let mut paths = Vec::new();
    collect(&root().join(folder), extension, &mut paths);
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

/// The file at `path` from the root, if there is one.
pub fn file(path: &str) -> Option<File> {
    let path = root().join(path);
    path.is_file().then(|| read(&path))
}

fn collect(folder: &Path, extension: &str, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let made = path.file_name().and_then(OsStr::to_str).is_some_and(|name| MADE.contains(&name));
        if path.is_dir() && !made {
            collect(&path, extension, paths);
        } else if path.extension().is_some_and(|found| found == extension) {
            paths.push(path);
        }
    }
}

fn read(path: &Path) -> File {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let path = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
    File { path, text }
}
