//! The cases that are measured.

use crate::round::{Round, median};
use serde::Serialize;
use std::fmt;

/// The prefix of the bench's subjects and of its KV bucket.
pub(crate) const PREFIX: &str = "rampmeter-bench";

/// The responder of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Path {
    /// A bare echo.
    Echo,
    /// The scheduler.
    Scheduler,
    /// The scheduler, called by the SDK.
    Sdk,
}

/// One load, applied to the echo and to `path`.
#[derive(Debug)]
pub(crate) struct Case {
    /// The path that is compared with the echo.
    pub(crate) path: Path,
    /// Messages in flight. For the SDK, calls of `acquire`: `array` times as many.
    pub(crate) in_flight: usize,
    /// Requests in one message.
    pub(crate) array: usize,
}

/// All cases.
pub(crate) const CASES: &[Case] = &[
    Case { path: Path::Scheduler, in_flight: 1, array: 1 },
    Case { path: Path::Scheduler, in_flight: 16, array: 1 },
    Case { path: Path::Scheduler, in_flight: 256, array: 1 },
    Case { path: Path::Scheduler, in_flight: 16, array: 64 },
    Case { path: Path::Sdk, in_flight: 1, array: 1 },
    Case { path: Path::Sdk, in_flight: 16, array: 1 },
    Case { path: Path::Sdk, in_flight: 256, array: 1 },
    Case { path: Path::Sdk, in_flight: 16, array: 64 },
];

/// The figures of one path in one case: medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    /// The responder.
    pub(crate) path: Path,
    /// The client: one inbox for everything, the client library's `request`, or the SDK.
    pub(crate) client: &'static str,
    /// Messages in flight.
    pub(crate) in_flight: usize,
    /// Requests in one message.
    pub(crate) array: usize,
    /// Requests answered in a second.
    pub(crate) per_second: f64,
    /// Median round trip.
    pub(crate) p50_us: f64,
    /// Round trip that one in a hundred exceeds.
    pub(crate) p99_us: f64,
    /// The median ratio of `per_second` to that of the echo in the same round.
    pub(crate) ratio_to_echo: f64,
}

impl Case {
    /// The name of the case's resource.
    pub(crate) fn resource(&self) -> String {
        format!("{self}").replace([' ', '×'], "-").replace(',', "")
    }

    /// The medians over these rounds.
    pub(crate) fn measured(&self, path: Path, rounds: &[Round], ratio_to_echo: f64) -> Measured {
        let over = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
        Measured {
            path,
            client: self.client(path),
            in_flight: self.in_flight,
            array: self.array,
            per_second: over(|round| round.per_second),
            p50_us: over(|round| round.p50_us),
            p99_us: over(|round| round.p99_us),
            ratio_to_echo,
        }
    }

    fn client(&self, path: Path) -> &'static str {
        match (self.path, path) {
            (_, Path::Sdk) => "sdk",
            (Path::Sdk, Path::Echo | Path::Scheduler) => "request",
            (Path::Echo | Path::Scheduler, Path::Echo | Path::Scheduler) => "multiplexer",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match self.path {
            Path::Echo => "echo",
            Path::Scheduler => "scheduler",
            Path::Sdk => "sdk",
        };
        write!(f, "{path} {}×{}", self.in_flight, self.array)
    }
}
