//! What takes its time: fleets on real servers, against real upstreams. Hardly any of it is work,
//! almost all is waiting.

mod fleets;
mod upstreams;

/// The program, as it ships.
const RAMPMETER: &str = env!("CARGO_BIN_EXE_rampmeter-under-test");
