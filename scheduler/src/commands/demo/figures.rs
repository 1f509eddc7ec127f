//! The figures of the demo.

use super::class::ByClass;
use serde::Serialize;

/// The figures of both phases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Each worker alone: it honours `Retry-After`, and backs off with jitter.
    pub uncoordinated: Figures,
    /// All workers with permits.
    pub coordinated: Figures,
}

/// The figures of one phase. The upstream counts up to the end of the phase, while all workers
/// work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Calls that arrived.
    pub sent: u64,
    /// Calls that were admitted.
    pub ok: u64,
    /// Calls that were answered 429.
    pub rate_limited: u64,
    /// The share, from 0 to 1, of the refill of the most used limit that calls spent. It counts
    /// from the end of the first burst to the end of the phase. `None` if the burst lasted to the
    /// end.
    ///
    /// In the first burst, calls spend some limit faster than it refills. The burst ends after 200
    /// ms in which calls spent no limit faster than it refilled. Stock that is left then, such as
    /// the headroom of urgent classes, is no later refill, so spending it does not count.
    pub utilisation: Option<f64>,
    /// The waits of calls in milliseconds, by class: from the wish to call until the successful
    /// call was sent. Calls that still wait at the end are left out; `None` if no other call is
    /// left.
    pub wait_ms: ByClass<Option<Wait>>,
}

/// Percentiles of waits in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wait {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
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
    fn the_json_format_stays() {
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
