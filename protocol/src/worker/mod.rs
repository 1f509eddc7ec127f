//! Messages between workers and schedulers: requests, answers, settles and events.

pub mod answer;
pub mod code;
pub mod incoming;
pub mod lateness;
pub mod left;
pub mod news;
pub mod request;
pub mod settle;
pub mod token;
