//! Rules: limits that people change while schedulers run, and refused changes.

mod live_rules;
mod wrong_rules;

/// The program, as it ships.
const RAMPMETER: &str = env!("CARGO_BIN_EXE_rampmeter-under-test");
