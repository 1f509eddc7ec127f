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
