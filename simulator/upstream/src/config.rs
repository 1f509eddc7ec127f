//! The parameters of an upstream.

use crate::{Policy, Preset, ResponseTime, Rule};
use std::net::{Ipv4Addr, SocketAddr};

/// The parameters of an [`Upstream`](crate::Upstream).
///
/// ```
/// use rampmeter_upstream::{Config, ResponseTime};
/// use std::time::Duration;
///
/// let response_time = ResponseTime::fixed(Duration::from_millis(50));
/// let config = Config { response_time, ..Config::new(vec!["requests=50/10s".parse()?]) };
/// # Ok::<(), rampmeter_upstream::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Its limits, and the form of its answers.
    pub preset: Preset,
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// How long admitted calls take. The timer counts whole milliseconds and is never early.
    pub response_time: ResponseTime,
    /// Whether all decisions are kept for [`Upstream::admissions`](crate::Upstream::admissions).
    pub keeps_admissions: bool,
}

impl Config {
    /// These policies on any free port of 127.0.0.1, in the dialect of Sentinel Hub. Answers come
    /// at once, concurrency has no bound, and admissions are not kept.
    #[must_use]
    pub fn new(policies: Vec<Policy>) -> Self {
        Self::of(Preset::new(policies.into_iter().map(Rule::new).collect()))
    }

    /// The same for an upstream with this preset, which has a dialect, bounds and prices, too.
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
