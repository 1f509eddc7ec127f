//! Simulated worlds and what they have to show. They are one program, because each takes as long to
//! link as to run.

#![expect(clippy::unwrap_used, reason = "a test stops where its setting fails, helpers included")]
#![expect(clippy::print_stdout, reason = "figures, shown with --nocapture")]

mod causes;
mod ceilings;
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
mod pools;
mod random_worlds;
mod strategies;
mod windows;
mod worlds;

/// What most of these tests use.
mod prelude {
    pub(crate) use crate::common::*;
    pub(crate) use jiff::tz::{Offset, TimeZone};
    pub(crate) use rampmeter_policy::spec::*;
    pub(crate) use rampmeter_protocol::amount::Amount;
    pub(crate) use rampmeter_protocol::time::{Span, Time};
    pub(crate) use rampmeter_simulator::cost::*;
    pub(crate) use rampmeter_simulator::fleet::*;
    pub(crate) use rampmeter_simulator::judge::*;
    pub(crate) use rampmeter_simulator::network::*;
    pub(crate) use rampmeter_simulator::outcome::*;
    pub(crate) use rampmeter_simulator::rng::Rng;
    pub(crate) use rampmeter_simulator::strategy::Strategy;
    pub(crate) use rampmeter_simulator::upstream::Behaviour;
    pub(crate) use rampmeter_simulator::world::World;
    pub(crate) use rampmeter_upstream::{Preset, RetryAfter};
    pub(crate) use std::num::{NonZeroU32, NonZeroUsize};
    pub(crate) use std::ops::Range;
}
