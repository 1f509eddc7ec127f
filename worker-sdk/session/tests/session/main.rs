//! The session in virtual time: what it does is a matter of events and numbers alone.

mod fleet;
mod heals;
mod herd;
mod lateness;
mod leases;
mod network;
mod rules;
mod script;
mod unreachable;
