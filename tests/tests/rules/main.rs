//! Rules: limits that are changed while schedulers run, and what is refused.

mod live_rules;
mod wrong_rules;

/// The program, as it ships.
const RAMPMETER: &str = env!("CARGO_BIN_EXE_rampmeter-under-test");
