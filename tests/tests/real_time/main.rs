//! Tests that take long: fleets on real servers, against real upstreams. Almost all of the time is
//! waiting.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

mod fleets;
