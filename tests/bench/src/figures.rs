//! The figures of one round, and their medians.

use hdrhistogram::Histogram;
use rampmeter_protocol::time::Span;
use serde::Serialize;
use std::time::Duration;

/// The figures of one path, in one round or as medians over rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Requests answered in a second.
    pub(crate) per_second: f64,
    /// Median round trip.
    p50_us: f64,
    /// Round trip that one in a hundred exceeds.
    p99_us: f64,
}

/// Collects round trips, from a nanosecond to a minute with three digits.
#[derive(Debug)]
pub(crate) struct RoundTrips(Histogram<u64>);

impl Figures {
    /// The median of each figure.
    pub(crate) fn medians(rounds: &[Figures]) -> Self {
        let over = |figure: fn(&Figures) -> f64| median(rounds.iter().map(figure));
        Figures {
            per_second: over(|round| round.per_second),
            p50_us: over(|round| round.p50_us),
            p99_us: over(|round| round.p99_us),
        }
    }

    /// The cells of a table with the columns of [`HEAD`].
    pub(crate) fn cells(&self) -> [String; 3] {
        [self.per_second, self.p50_us, self.p99_us].map(|figure| format!("{figure:.0}"))
    }
}

/// The head of the columns of [`Figures::cells`].
pub(crate) const HEAD: [&str; 3] = ["per second", "p50 µs", "p99 µs"];

impl RoundTrips {
    pub(crate) fn new() -> Self {
        RoundTrips(Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds"))
    }

    pub(crate) fn note(&mut self, span: Span) {
        self.0.saturating_record(span.nanos());
    }

    /// The figures of a round of this length, for messages with `array` requests each.
    pub(crate) fn figures(&self, length: Duration, array: usize) -> Figures {
        let micros = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        let requests = self.0.len() as f64 * array as f64;
        Figures { per_second: requests / length.as_secs_f64(), p50_us: micros(0.5), p99_us: micros(0.99) }
    }
}

/// The median.
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// A line of a table whose columns have equal widths.
pub(crate) fn line(cells: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    cells.into_iter().map(|cell| format!("{:>12}", cell.as_ref())).collect()
}
