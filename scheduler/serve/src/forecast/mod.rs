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
