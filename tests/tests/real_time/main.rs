//! Tests that take long: fleets on real servers, against real upstreams. Almost all of the time is
//! waiting.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

mod fleets;
mod upstreams;

/// The program, as it ships.
const RAMPMETER: &str = env!("CARGO_BIN_EXE_rampmeter-under-test");

/// What most of these tests use.
mod prelude {
    pub(crate) use crate::RAMPMETER;
    pub(crate) use rampmeter_tests::prelude::*;
}
