//! The HTTP front: permits, `/check`, the page, health.

mod access;
mod browser;
mod check;
mod gateways;
mod health;
mod nginx;
mod page;
mod permits;
mod tokens;
