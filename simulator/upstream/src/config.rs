//! The parameters of an upstream.

use crate::{Policy, Preset, ResponseTime, Rule};
use std::net::{Ipv4Addr, SocketAddr};

/// The parameters of an [`Upstream`](crate::Upstream).
///
/// ```
/// use rampmeter_upstream::{Config, ResponseTime};
/// use std::time::Duration;
///
/// let config = Config::new(vec!["requests=50/10s".parse()?])
///     .listen(([127, 0, 0, 1], 0).into())
///     .response_time(ResponseTime::fixed(Duration::from_millis(50)))
///     .keep_admissions(100_000);
/// # Ok::<(), rampmeter_upstream::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) preset: Preset,
    pub(crate) listen: SocketAddr,
    pub(crate) response_time: ResponseTime,
    pub(crate) admissions_kept: usize,
}

impl Config {
    /// These policies on any free port of 127.0.0.1, in the dialect of Sentinel Hub. Answers come
    /// at once, concurrency has no bound, and admissions are not logged.
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
            admissions_kept: 0,
        }
    }

    /// Where to listen; port 0 takes any free one.
    #[must_use]
    pub fn listen(mut self, addr: SocketAddr) -> Self {
        self.listen = addr;
        self
    }

    /// How long admitted calls take. The timer counts whole milliseconds and is never early.
    #[must_use]
    pub fn response_time(mut self, response_time: ResponseTime) -> Self {
        self.response_time = response_time;
        self
    }

    /// Keep the latest `limit` decisions for [`Upstream::admissions`](crate::Upstream::admissions).
    #[must_use]
    pub fn keep_admissions(mut self, limit: usize) -> Self {
        self.admissions_kept = limit;
        self
    }
}
