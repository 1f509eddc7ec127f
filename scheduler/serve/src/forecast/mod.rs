//! Forecasts when a limit runs out, by replaying the use of the last weeks.
//!
//! A replay goes on hour by hour from what is left. Each of its days takes the hours of a day in the
//! history, working days from working days, scaled by the trend. The spread of many replays gives the
//! percentiles: by p10 one in ten has run out, by p50 half of them, by p90 nine of ten.
//!
//! It is pure: history, state and seed determine it. Amounts and times are floats, as a forecast decides nothing.

mod history;
mod replay;
#[cfg(test)]
mod scenarios;
mod trend;

pub(crate) use history::{DAYS, History};
pub(crate) use replay::{LimitState, forecast};
