//! What workers and schedulers say to each other: requests, answers, settles and news.

pub mod answer;
pub mod code;
pub mod incoming;
pub mod lateness;
pub mod left;
pub mod news;
pub mod request;
pub mod settle;
pub mod token;
