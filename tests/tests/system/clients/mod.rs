//! Workers: the SDK, its middleware, leases and traces.

pub(crate) mod examples;
mod gone_clients;
mod leases;
mod permit_ids;
mod python;
mod reqwest_middleware;
mod sdk;
mod silence;
mod tower_client;
mod tower_server;
mod traces;

/// What the middlewares ask: a hundred requests a second. The margin covers pauses of half a second on a busy machine.
const HUB: &str = r#"
[[resource]]
name = "hub"
dialect = "sentinel-hub"
limit = [{ name = "per-second", capacity = 100, period = "1s", margin = 50 }]
"#;
