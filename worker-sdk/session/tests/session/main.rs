//! The session in virtual time: only events and numbers decide what it does.

mod fleet;
mod heals;
mod herd;
mod lateness;
mod leases;
mod network;
mod prices;
mod relaying;
mod rules;
mod script;
mod session_scripts;
mod silence_report;
mod subject_classes;
mod unreachable;
