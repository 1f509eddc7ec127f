//! What upstreams do: one program, because each takes as long to link as it does to run.

#![expect(clippy::unwrap_used, reason = "a test stops where its setting fails, helpers included")]

mod account;
mod http;
mod presets;
mod script;
