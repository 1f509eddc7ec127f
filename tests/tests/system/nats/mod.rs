//! NATS: permissions, users, encryption, clusters and restarts.

mod accounts;
mod class_permissions;
mod configuration;
mod embedded;
mod micro_service;
mod nats_tls;
pub(crate) mod permissions;
mod users;
