//! A reverse proxy that holds requests until their permits start.
//!
//! A program calls the proxy in place of its API, and needs no other change. The proxy asks the
//! scheduler for a permit for each request, holds the request until the permit's start, forwards
//! it, streams both bodies, and settles. A request that the upstream answers 429 is held again.
//!
//! `exchange` is the way of one request, and the place to begin reading. `listener` has the
//! connections of clients, `pool` those to the upstream, and `connection` their history.
//! `head_check` refuses what two servers could read differently. `request_body` keeps a body to
//! send it again, `outgoing` is what is sent, `response` settles at the end of an answer. `route` and
//! `requested_permit` say what a request asks for. `json` reads bodies as they pass: `tokens` counts the
//! tokens of language models by the table of `models`, `prompts` knows what vendors keep of them,
//! and `answer` finds usage and, with `objection`, the codes of errors. `credential` is what the proxy
//! shows in place of its clients. `trace` is the span of a request, and `failure` an answer of the
//! proxy's own.

mod amounts;
pub mod answer;
mod checked_stream;
pub mod credential;
mod exchange;
mod headers;
mod json;
mod listener;
pub mod metrics;
mod models;
mod objection;
mod pool;
pub mod prompts;
mod proxy;
pub mod route;
pub mod settings;
mod start_error;
pub mod tokens;

pub use proxy::Proxy;
pub use settings::Settings;
pub use start_error::StartError;
