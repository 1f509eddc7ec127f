//! The parameters of an upstream.

use crate::{Policy, Preset, ResponseTime, Rule};
use std::net::{Ipv4Addr, SocketAddr};

/// The parameters of an [`Upstream`](crate::Upstream).
#[derive(Clone, Debug)]
pub struct Config {
    /// Its limits and the form of its responses.
    pub preset: Preset,
    /// The address to listen on; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Duration of admitted calls. The timer counts whole milliseconds and is never early.
    pub response_time: ResponseTime,
    /// Whether to keep all decisions for [`Upstream::admissions`](crate::Upstream::admissions).
    pub keeps_admissions: bool,
}

impl Config {
    /// Creates parameters with these policies on a free port of 127.0.0.1, in the dialect of
    /// Sentinel Hub. Responses come at once, concurrency has no bound, and admissions are not kept.
    #[must_use]
    pub fn new(policies: Vec<Policy>) -> Self {
        Self::of(Preset::new(policies.into_iter().map(Rule::new).collect()))
    }

    /// Creates such parameters with a preset, which also has a dialect, bounds and prices.
    #[must_use]
    pub fn of(preset: Preset) -> Self {
        Self {
            preset,
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            response_time: ResponseTime::default(),
            keeps_admissions: false,
        }
    }
}
