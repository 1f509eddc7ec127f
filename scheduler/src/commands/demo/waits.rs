//! The waits of calls.

use super::class::{ByClass, Class};
use super::figures::Wait;
use hdrhistogram::Histogram;
use rampmeter_protocol::time::Span;
use std::sync::Mutex;

/// The longest wait in the histogram: no phase is longer.
const LONGEST_US: u64 = 3_600_000_000;
/// The significant digits of a wait.
const DIGITS: u8 = 3;
const NANOS_PER_MICRO: u64 = 1000;
const MICROS_PER_MILLI: f64 = 1e3;

/// Waits by class, from the wish to call until the successful call was sent.
///
/// A call that still waits at the end of its phase is not included.
pub(super) struct Waits {
    /// In microseconds. The lock is held for one entry or one reading, never across an await.
    histograms: Mutex<ByClass<Histogram<u64>>>,
}

impl Waits {
    pub(super) fn new() -> Self {
        let histogram = |_| Histogram::new_with_bounds(1, LONGEST_US, DIGITS).expect("valid bounds");
        Waits { histograms: Mutex::new(ByClass::from_fn(histogram)) }
    }

    pub(super) fn add(&self, class: Class, wait: Span) {
        let mut histograms = self.histograms.lock().expect("no panic while the lock is held");
        histograms[class].saturating_record(wait.nanos() / NANOS_PER_MICRO);
    }

    /// The percentiles so far; `None` for a class without calls.
    pub(super) fn percentiles(&self) -> ByClass<Option<Wait>> {
        let histograms = self.histograms.lock().expect("no panic while the lock is held");
        ByClass::from_fn(|class| percentiles(&histograms[class]))
    }
}

fn percentiles(histogram: &Histogram<u64>) -> Option<Wait> {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / MICROS_PER_MILLI;
    (!histogram.is_empty()).then(|| Wait { p50: at(0.5), p99: at(0.99) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(waits_ms: impl IntoIterator<Item = u64>, expected: Option<(f64, f64)>) {
        let waits = Waits::new();
        waits_ms.into_iter().for_each(|millis| waits.add(Class::Standard, Span::from_millis(millis)));
        let found = waits.percentiles();
        let rounded = found.standard.map(|wait| (wait.p50.round(), wait.p99.round()));
        assert_eq!((rounded, found.bulk), (expected, None));
    }

    #[test]
    fn percentiles_are_of_the_class() {
        check([], None);
        check([0], Some((0.0, 0.0)));
        check([7], Some((7.0, 7.0)));
        check(1..=100, Some((50.0, 99.0)));
        check((1..=99).map(|_| 2).chain([900]), Some((2.0, 2.0)));
    }
}
