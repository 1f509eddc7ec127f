//! Python with the packages that files in `tests/python` pin, kept in the build folder.

use crate::patience::within;
use crate::repository;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use tokio::process::Command;

/// The packages that `name`.txt pins, downloaded to `build_folder` if they are missing; tests give
/// `env!("CARGO_TARGET_TMPDIR")`.
///
/// # Panics
/// If `python3` or its pip is missing, or the packages are unavailable.
pub async fn packages(build_folder: &str, name: &str) -> PathBuf {
    let pins = repository::root().join(format!("tests/python/{name}.txt"));
    let folder = Path::new(build_folder).join(format!("python-{name}"));
    let installed = folder.join("pins.txt");
    let _alone = alone(&folder).await;
    if std::fs::read(&installed).ok() != Some(std::fs::read(&pins).unwrap()) {
        let fresh = tempfile::tempdir_in(build_folder).unwrap();
        pip_install(&pins, fresh.path()).await;
        std::fs::copy(&pins, fresh.path().join("pins.txt")).unwrap();
        put_in_place(fresh, &folder);
    }
    folder
}

/// Lets one test at a time, of all processes, fill `folder`, until the result is dropped. What is
/// in use is never replaced.
pub(crate) async fn alone(folder: &Path) -> File {
    let lock = File::create(folder.with_extension("lock")).unwrap();
    tokio::task::spawn_blocking(|| lock.lock().map(|()| lock)).await.unwrap().unwrap()
}

/// Runs a program from `tests/python` with `packages` and these environment variables.
pub async fn run(program: &str, packages: &Path, environment: &[(&str, &str)]) -> Output {
    let mut command = python();
    command.arg(repository::root().join("tests/python").join(program));
    command.env("PYTHONPATH", packages).envs(environment.iter().copied());
    within(program, command.output()).await.unwrap_or_else(|error| panic!("python3 cannot be run: {error}"))
}

async fn pip_install(pins: &Path, into: &Path) {
    let strict = "-m pip install --quiet --no-input --disable-pip-version-check --no-deps --require-hashes";
    let mut command = python();
    command
        .args(strict.split(' '))
        .args(["--only-binary", ":all:", "--requirement"])
        .arg(pins)
        .arg("--target")
        .arg(into);
    let output = command.output().await.unwrap_or_else(|error| panic!("python3 cannot be run: {error}; install it"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "pip could not bring {}; install python3 with pip\n{errors}", pins.display());
}

fn python() -> Command {
    let mut command = Command::new("python3");
    // `-m` would take a module from the current folder first.
    command.env("PYTHONSAFEPATH", "1").stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Replaces what other pins left there. The caller holds the lock of `alone`.
pub(crate) fn put_in_place(fresh: tempfile::TempDir, folder: &Path) {
    std::fs::remove_dir_all(folder).ok();
    std::fs::rename(fresh.keep(), folder).unwrap();
}
