//! The forecasts of limits, as a permit loop shows them.

use rampmeter_protocol::forecast::LimitForecast;
use rampmeter_protocol::time::Time;

/// The forecasts that were made last. Their times shrink by their age.
#[derive(Debug, Default)]
pub(crate) struct KnownForecasts {
    made: Time,
    forecasts: Vec<LimitForecast>,
}

impl KnownForecasts {
    /// Takes forecasts that were made just now.
    pub(crate) fn note(&mut self, now: Time, forecasts: Vec<LimitForecast>) {
        *self = KnownForecasts { made: now, forecasts };
    }

    /// The forecasts for a reader at `now`.
    pub(crate) fn at(&self, now: Time) -> Vec<LimitForecast> {
        let passed = now.since(self.made).millis();
        self.forecasts.iter().map(|forecast| forecast.after(passed)).collect()
    }
}
