//! Tells when a limit ends, by replaying the use of the last weeks.
//!
//! A replay goes on hour by hour from what is left. Each day of it takes the hours of a day in the
//! history, scaled by the trend. A working day takes those of a working day. Many replays give the
//! spread: by p10 one in ten has ended, by p50 half of them, by p90 nine of ten.
//!
//! It is pure: the same history, state and seed give the same forecast. Amounts and times are floats,
//! because a forecast is shown and decides nothing.

mod history;
mod replay;
#[cfg(test)]
mod scenarios;
mod trend;

pub(crate) use history::{DAYS, History};
pub(crate) use replay::{LimitState, forecast};

#[cfg(test)]
mod tests {
    use super::replay::Forecast;
    use super::*;

    #[test]
    fn even_use_ends_a_limit_at_one_time() {
        // Two weeks at 10 an hour. What is left lasts for 50 hours; the reset comes in 100.
        let history = History::new(480_000, vec![10.0; 14 * 24]);
        let now = 480_000.0 + 14.0 * 24.0;
        let state = LimitState { now, left: 500.0, full: 10_000.0, refill: 0.0, until: now + 100.0 };
        let expected = Forecast { p10: Some(50.0), p50: Some(50.0), p90: Some(50.0), share: 1.0 };
        assert_eq!(forecast(&history, &state, 1), Some(expected));
    }
}
