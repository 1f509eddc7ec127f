//! The cases that are measured.

use crate::figures::{Figures, HEAD, line};
use serde::Serialize;
use std::fmt;

/// Messages in flight, and requests in one message.
const LOADS: [(usize, usize); 4] = [(1, 1), (16, 1), (256, 1), (16, 64)];

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// The path that is compared with the echo.
    pub(crate) path: Path,
    /// Messages in flight. For the SDK, calls of `acquire`: `array` times as many.
    pub(crate) in_flight: usize,
    /// Requests in one message.
    pub(crate) array: usize,
}

/// What sends the requests of a case to one of its paths.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Client {
    /// One inbox for all answers.
    Multiplexer,
    /// The client library's plain `request`.
    Request,
    /// The SDK.
    Sdk,
}

/// The figures of one path in one case.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    path: Path,
    client: Client,
    in_flight: usize,
    array: usize,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// The median ratio of `per_second` to that of the echo in the same round.
    pub(crate) ratio_to_echo: f64,
}

impl Case {
    /// All cases.
    pub(crate) fn all() -> impl Iterator<Item = Case> {
        let of = |path| LOADS.map(|(in_flight, array)| Case { path, in_flight, array });
        [Path::Scheduler, Path::Sdk].into_iter().flat_map(of)
    }

    /// The name of the case's resource.
    pub(crate) fn resource(self) -> String {
        self.to_string().replace([' ', '×'], "-")
    }

    /// The client for `path`. The SDK is compared with what a worker would use without it.
    pub(crate) fn client(self, path: Path) -> Client {
        match (self.path == Path::Sdk, path == Path::Sdk) {
            (false, _) => Client::Multiplexer,
            (true, false) => Client::Request,
            (true, true) => Client::Sdk,
        }
    }

    /// The medians over these rounds.
    pub(crate) fn measured(self, path: Path, rounds: &[Figures], ratio_to_echo: f64) -> Measured {
        let Case { in_flight, array, .. } = self;
        let figures = Figures::medians(rounds);
        Measured { path, client: self.client(path), in_flight, array, figures, ratio_to_echo }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}×{}", lower(self.path), self.in_flight, self.array)
    }
}

fn lower(name: impl fmt::Debug) -> String {
    format!("{name:?}").to_lowercase()
}

/// The table for people: a line for each path of each case.
pub(crate) fn table(measured: &[Measured]) -> String {
    let head = ["path", "client", "in flight", "array"].into_iter().chain(HEAD).chain(["to echo"]);
    let row = |row: &Measured| {
        let names = [lower(row.path), lower(row.client)];
        let load = [row.in_flight, row.array].map(|number| number.to_string());
        line(names.into_iter().chain(load).chain(row.figures.cells()).chain([format!("{:.2}", row.ratio_to_echo)]))
    };
    [line(head)].into_iter().chain(measured.iter().map(row)).collect::<Vec<_>>().join("\n")
}
