//! Tells when a limit ends, by replaying the use of the last weeks.
//!
//! A replay goes on hour by hour from what is left. Each day of it takes the hours of a day in the
//! history, scaled by the trend. A working day takes those of a working day. Many replays give the
//! spread: by p10 one in ten has ended, by p50 half of them, by p90 nine of ten.
//!
//! The package is pure: the same history, state and seed give the same forecast. Amounts and times
//! are floats, because a forecast is shown and decides nothing.
//!
//! ```
//! use rampmeter_forecast::{History, State, forecast};
//! // Two weeks at 10 an hour. What is left lasts for 50 hours; the reset comes in 100.
//! let history = History::new(480_000, vec![10.0; 14 * 24]);
//! let now = 480_000.0 + 14.0 * 24.0;
//! let state = State { now, left: 500.0, full: 10_000.0, refill: 0.0, until: now + 100.0 };
//! let told = forecast(&history, &state, 1).unwrap();
//! assert_eq!((told.p10, told.p50, told.p90, told.share), (Some(50.0), Some(50.0), Some(50.0), 1.0));
//! ```

mod history;
mod replay;
mod trend;

pub use history::{DAYS, History};
pub use replay::{Forecast, State, forecast};
