//! Real servers: NATS, nginx and other proxies, collectors, and the certificates that they show.

pub mod certificates;
pub mod cluster;
pub mod collector;
pub mod gateway;
pub mod listening;
pub mod nats;
pub mod nginx;
pub mod python;
