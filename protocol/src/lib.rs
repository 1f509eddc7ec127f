//! The wire protocol between schedulers and workers: messages, subjects, units and time.
//!
//! This crate is version 1 of the protocol, as types. What clients send is checked once, while it
//! is parsed, and is within the bounds of [`bounds`]. Answers are read as they are written: their
//! reader checks durations with [`millis::Millis`]. The crate decides and sends nothing.
//!
//! Only [`clock`] asks for the time. All packages use it, except the simulated upstream: it shares
//! no code with what it judges.
//!
//! ```
//! use rampmeter_protocol::{incoming::Incoming, request::PermitRequest};
//!
//! let Incoming::One(Ok(request)) = Incoming::<PermitRequest>::parse(br#"{"cost": {"requests": 1}}"#)
//! else { panic!("a valid request") };
//! assert_eq!(request.cost.get("requests").map(|amount| amount.micros()), Some(1_000_000));
//! ```

pub mod amount;
pub mod answer;
pub mod bounds;
pub mod clock;
pub mod code;
pub mod cost;
pub mod epoch;
pub mod explain;
pub mod forecast;
pub mod headers;
pub mod id;
pub mod incoming;
pub mod labels;
pub mod lateness;
pub mod left;
pub mod limit_order;
pub mod millis;
pub mod name;
pub mod news;
pub mod object;
pub mod plain_types;
pub mod price;
pub mod purge;
pub mod rate_limit;
pub mod reason;
pub mod request;
pub mod resources;
pub mod settle;
pub mod shares;
pub mod splitmix;
pub mod status;
pub mod subject;
pub mod suggestion;
pub mod text;
pub mod time;
pub mod token;
pub mod trace_context;
pub mod usage;
pub mod wall_clock;
