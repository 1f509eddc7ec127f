//! The upstream behind HTTP.

pub(super) mod answer;
pub(super) mod call;
pub(super) mod clock;
pub(super) mod ledger;
pub(super) mod response_time;
pub(super) mod service;
pub(super) mod stats_body;
