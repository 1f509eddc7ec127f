//! The session in virtual time: what it does is a matter of events and numbers alone.

mod heals;
mod network;
mod rules;
mod script;
