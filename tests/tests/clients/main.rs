//! The clients in other languages, the web page, and what ships for other programs, by their own
//! checks, against the scheduler of this build.
//!
//! Where Python, Node.js, Go or Chromium is missing, or no registry is reached, a check says what it
//! skipped. With `CI=true` nothing is skipped.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use rampmeter_tests::repository::root;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock};

/// Clients are timed, so that they share the machine only with each other.
static MACHINE: RwLock<()> = RwLock::new(());
/// Brings what the tests need, and ends before them.
const PREPARE: &[&str] = &["--prepare"];

#[test]
fn the_python_client() {
    check("python/check", &["--lint"]);
    let _timed = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    check("python/check", &["--tests"]);
}

#[test]
fn the_typescript_client() {
    check("typescript/check", PREPARE);
    let _timed = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    check("typescript/check", &[]);
}

#[test]
fn the_go_client() {
    check("go/check", PREPARE);
    let _timed = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    check("go/check", &[]);
}

#[test]
fn the_web_page() {
    check("scheduler/front/page/check", PREPARE);
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    check("scheduler/front/page/check", &[]);
}

#[test]
fn the_files_for_prometheus_grafana_and_kubernetes() {
    check("deploy/check", PREPARE);
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    check("deploy/check", &[]);
}

/// Runs a check. What it prints is for people: they see it while it runs.
fn check(path: &str, arguments: &[&str]) {
    let mut command = Command::new(root().join(path));
    command.args(arguments);
    command.env("RAMPMETER_BINARY", env!("CARGO_BIN_EXE_rampmeter-under-test")).stdin(Stdio::null());
    let status = command.status().unwrap_or_else(|error| panic!("{path} cannot be run: {error}"));
    assert!(status.success(), "{path} has failed, as its output above says");
}
