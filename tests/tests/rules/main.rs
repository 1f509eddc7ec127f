//! Rules: limits that people change while schedulers run, and refused changes.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

mod live_rules;
mod wrong_rules;

/// The program, as it ships.
const RAMPMETER: &str = env!("CARGO_BIN_EXE_rampmeter-under-test");

/// What most of these tests use.
mod prelude {
    pub(crate) use crate::RAMPMETER;
    pub(crate) use rampmeter_tests::prelude::*;
}
