//! Simulated worlds and what they have to show. They are one program, because each takes as long to
//! link as to run.

#![expect(clippy::unwrap_used, reason = "a test stops where its setting fails, helpers included")]

mod common;
mod counted;
mod discover;
mod fairness;
mod feedback;
mod fleets;
mod incidents;
mod judge;
mod judge_of_limits;
mod known_upstreams;
mod random_worlds;
mod strategies;
mod upstreams;
mod worlds;
