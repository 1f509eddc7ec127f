//! The HTTP front: permits, `/check`, the page, health.

mod access;
mod audit;
mod browser;
mod check;
mod gateways;
mod health;
mod memory;
mod page;
mod paths;
mod permits;
mod tls;
mod tokens;
