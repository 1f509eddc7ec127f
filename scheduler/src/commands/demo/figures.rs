//! What comes out.

use super::class::ByClass;
use serde::Serialize;

/// Both phases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Each worker on its own: back-off with jitter, Retry-After honoured.
    pub uncoordinated: Figures,
    /// With permits.
    pub coordinated: Figures,
}

/// One phase, as counted by the upstream up to the moment at which the phase ended, with all workers at work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Calls that arrived.
    pub sent: u64,
    /// Those admitted.
    pub ok: u64,
    /// Those answered 429.
    pub rate_limited: u64,
    /// What calls took of the limit that was used most, as a share of what flowed into it, from the end of the first
    /// burst to the end of the phase: 0 to 1. `None` when the burst lasted to the end.
    ///
    /// The first burst has ended when, after a fifth of a second in which more was spent of some limit than
    /// flowed in, one has passed in which that was true of none. Stock that was left at that moment, such as the headroom
    /// of urgent classes, did not flow in later: what is missing of it at the end is not counted as use.
    pub utilisation: Option<f64>,
    /// How long calls waited, in milliseconds, by class: from wanting to call to sending the call that succeeded. A
    /// call that still waited at the end is left out; `None` when that is all.
    pub wait_ms: ByClass<Option<Wait>>,
}

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wait {
    /// The median.
    pub p50: f64,
    /// Ninety-nine of a hundred are not above it.
    pub p99: f64,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn example() -> Comparison {
        let wait = |p50, p99| Some(Wait { p50, p99 });
        Comparison {
            uncoordinated: Figures {
                sent: 5000,
                ok: 1000,
                rate_limited: 4000,
                utilisation: None,
                wait_ms: ByClass { interactive: wait(812.5, 12_345.0), standard: wait(0.0, 1.0), bulk: None },
            },
            coordinated: Figures {
                sent: 1100,
                ok: 1100,
                rate_limited: 0,
                utilisation: Some(0.9951),
                wait_ms: ByClass { interactive: wait(0.75, 2.5), standard: wait(1.0, 4.0), bulk: wait(6000.0, 7000.0) },
            },
        }
    }

    #[test]
    fn the_json_is_what_it_was() {
        let golden = concat!(
            r#"{"uncoordinated":{"sent":5000,"ok":1000,"rate_limited":4000,"utilisation":null,"#,
            r#""wait_ms":{"interactive":{"p50":812.5,"p99":12345.0},"standard":{"p50":0.0,"p99":1.0},"bulk":null}},"#,
            r#""coordinated":{"sent":1100,"ok":1100,"rate_limited":0,"utilisation":0.9951,"#,
            r#""wait_ms":{"interactive":{"p50":0.75,"p99":2.5},"standard":{"p50":1.0,"p99":4.0},"#,
            r#""bulk":{"p50":6000.0,"p99":7000.0}}}}"#,
        );
        assert_eq!(serde_json::to_string(&example()).unwrap(), golden);
    }
}
