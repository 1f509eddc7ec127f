//! The clients in other languages, by their own checks, against the scheduler of this build.
//!
//! Where Python is missing, or pip reaches no registry, a check says what it skipped. With
//! `CI=true` nothing is skipped.

use rampmeter_tests::repository::root;
use std::process::{Command, Stdio};

#[test]
fn the_python_client() {
    check("python/check");
}

/// Runs a check. What it prints is for people: they see it while it runs.
fn check(path: &str) {
    let mut command = Command::new(root().join(path));
    command.env("RAMPMETER_BINARY", env!("CARGO_BIN_EXE_rampmeter-under-test")).stdin(Stdio::null());
    let status = command.status().unwrap_or_else(|error| panic!("{path} cannot be run: {error}"));
    assert!(status.success(), "{path} has failed, as its output above says");
}
