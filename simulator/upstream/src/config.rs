//! What an upstream is started with.

use crate::{Policy, ResponseTime, RetryAfter};
use std::{
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
};

/// What an [`Upstream`](crate::Upstream) is started with.
///
/// ```
/// use rampmeter_upstream::{Config, ResponseTime, RetryAfter};
/// use std::{num::NonZeroUsize, time::Duration};
///
/// let config = Config::new(vec!["requests=50/10s".parse()?])
///     .listen(([127, 0, 0, 1], 0).into())
///     .response_time(ResponseTime::fixed(Duration::from_millis(50)))
///     .concurrency(NonZeroUsize::MIN.saturating_add(99))
///     .retry_after(RetryAfter::Seconds)
///     .keep_admissions(100_000);
/// # Ok::<(), rampmeter_upstream::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) policies: Vec<Policy>,
    pub(crate) listen: SocketAddr,
    pub(crate) response_time: ResponseTime,
    pub(crate) concurrency: Option<NonZeroUsize>,
    pub(crate) retry_after: RetryAfter,
    pub(crate) admissions_kept: usize,
}

impl Config {
    /// These policies, on any free port of 127.0.0.1, answering at once any number of calls at the same time, with waits in
    /// milliseconds, without a log of admissions.
    #[must_use]
    pub fn new(policies: Vec<Policy>) -> Self {
        Self {
            policies,
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            response_time: ResponseTime::default(),
            concurrency: None,
            retry_after: RetryAfter::default(),
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

    /// The most admitted calls at the same time. A call is one of them from its arrival until just before its answer is sent,
    /// so that whoever has read an answer may call again, or until its caller has gone.
    #[must_use]
    pub fn concurrency(mut self, limit: NonZeroUsize) -> Self {
        self.concurrency = Some(limit);
        self
    }

    /// How a 429 states the wait.
    #[must_use]
    pub fn retry_after(mut self, form: RetryAfter) -> Self {
        self.retry_after = form;
        self
    }

    /// Keep the latest `limit` decisions for [`Upstream::admissions`](crate::Upstream::admissions).
    #[must_use]
    pub fn keep_admissions(mut self, limit: usize) -> Self {
        self.admissions_kept = limit;
        self
    }
}
