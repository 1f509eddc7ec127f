//! The figures of one round.

use hdrhistogram::Histogram;
use rampmeter_protocol::time::Span;
use std::time::Duration;

/// The figures of one path in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Requests answered in a second.
    pub(crate) per_second: f64,
    /// Median round trip.
    pub(crate) p50_us: f64,
    /// Round trip that one in a hundred exceeds.
    pub(crate) p99_us: f64,
}

/// Collects round trips.
#[derive(Debug)]
pub(crate) struct RoundTrips(Histogram<u64>);

impl RoundTrips {
    /// An empty histogram with three digits, up to a minute.
    pub(crate) fn new() -> Self {
        RoundTrips(Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds"))
    }

    /// Adds one round trip.
    pub(crate) fn note(&mut self, span: Span) {
        self.0.saturating_record(span.nanos());
    }

    /// The figures for messages with `array` requests each.
    pub(crate) fn round(&self, length: Duration, array: usize) -> Round {
        let micros = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        let requests = self.0.len() as f64 * array as f64;
        Round { per_second: requests / length.as_secs_f64(), p50_us: micros(0.5), p99_us: micros(0.99) }
    }
}

/// The median.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
