//! Lists the presets of `rampmeter init`, so that another one is a file alone.

use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=presets");
    let mut presets = String::new();
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    for group in entries(&Path::new(&package).join("presets"))? {
        for file in entries(&group)? {
            let [group, name] = [group.file_name(), file.file_stem()].map(Option::unwrap_or_default);
            presets += &format!("Preset {{ group: {group:?}, name: {name:?}, file: include_str!({file:?}) }},\n");
        }
    }
    std::fs::write(
        Path::new(&std::env::var_os("OUT_DIR").unwrap_or_default()).join("presets.rs"),
        format!("&[{presets}]"),
    )
}

/// What is in a folder, in the order of names.
fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}
