//! The proxy that holds requests.

mod costs;
mod credential;
mod holding;
mod memory;
mod models;
mod money;
mod objections;
mod pages;
mod presets;
mod proxy_faults;
mod proxy_fleet;
mod smuggling;
mod start;
mod tls;
