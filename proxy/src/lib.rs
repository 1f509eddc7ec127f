//! A reverse proxy that holds requests until their permits start.
//!
//! A program calls the proxy in place of its API, without another change. The proxy gets a permit for each request,
//! holds the request until its start, forwards it, streams both bodies, and settles. After a 429 it holds it again.
//!
//! Begin reading in `exchange`, the path of one request. Clients connect to `listener`, whose `head_check` rejects
//! ambiguous heads. `route` and `requested_permit` determine the permit to request. `request_body` keeps a body for
//! another attempt, `outgoing` is what is sent over `pool`, whose `connection`s know their history, with the
//! `credential`. `response` settles at the end of a response. `json` reads bodies as they pass: `tokens` counts the
//! tokens of language models by the table of `models`, `prompts` records what vendors cache of them, `money` charges
//! calls at the `prices` of their models, and `answer` finds usage and, with `objection`, the codes of errors. `trace`
//! is the span of a request, and `failure` the proxy's own response.

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
pub mod money;
mod objection;
mod pool;
pub mod prices;
pub mod prompts;
mod proxy;
pub mod route;
pub mod settings;
mod start_error;
pub mod tokens;

pub use proxy::Proxy;
pub use settings::Settings;
pub use start_error::StartError;
