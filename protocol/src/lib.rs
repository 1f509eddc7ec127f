//! The wire protocol between schedulers and workers: messages, subjects, units and time.
//!
//! Version 1 of the protocol, as types. Clients' messages are checked once, while they are parsed, against [`bounds`].
//! Answers are read as written; their reader checks durations with [`millis::Millis`]. Only [`clock`] reads the time,
//! for all packages but the simulated upstream, which shares no code with what it judges.
//!
//! ```
//! use rampmeter_protocol::{incoming::Incoming, request::PermitRequest};
//!
//! let Incoming::One(Ok(request)) = Incoming::<PermitRequest>::parse(br#"{"cost": {"requests": 1}}"#)
//! else { panic!("a valid request") };
//! assert_eq!(request.cost.get("requests").map(|amount| amount.micros()), Some(1_000_000));
//! ```

mod operator;
mod value;
mod worker;

pub mod bounds;
pub mod clock;
pub mod headers;
pub mod log_throttle;
mod named;
pub mod rate_limit;
pub mod shared_places;
pub mod splitmix;
pub mod subject;
pub mod suggestion;
pub mod time;
pub mod trace_context;
pub mod wall_clock;

pub use operator::{
    explain, explained, forecast, limit_order, purge, reason, recent, resources, shares, status, usage,
};
pub use value::{amount, cost, epoch, id, labels, millis, name, object, plain_types, price, text};
pub use worker::{answer, code, incoming, lateness, left, news, request, settle, token};

/// Runs the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}
