//! Decides when calls to a rate-limited upstream may start, and does nothing else.
//!
//! The crate is deterministic: it has no I/O, clock or threads. Its hashes have random seeds, but
//! it never iterates over hash maps, and only compares hashes within one process ([`identity`]).
//! One [`scheduler::Scheduler`] per resource takes events with their times, and gives commands. A
//! start is the earliest time at which every bucket can pay the request without breaking a start
//! that is already committed. Refill beyond a full bucket is lost.
//!
//! From the outside in: [`event`] lists what can happen, and [`command`] what the driver has to do.
//! [`scheduler`] turns events into commands, and [`wire`] translates both. In this list of the
//! other folders, upper ones use lower ones:
//!
//! * [`views`]: status and explanations for people.
//! * [`durability`]: checkpoints, and what a successor restores from them.
//! * `permits`: what was asked for and granted, by id.
//! * `fencing`: what may be granted under the checkpoints that the store holds.
//! * `queue`: the order of waiting requests.
//! * [`ledger`]: what a request takes of each limit, and the start that suits all.
//! * [`adaptation`]: what the upstream's responses teach.
//! * [`limits`]: the arithmetic of one limit.
//! * `collections`: containers.
//!
//! Configuration and the content of responses belong to [`rampmeter_policy`].

pub mod adaptation;
mod array_form;
pub mod checkpoint_number;
mod collections;
pub mod command;
pub mod durability;
pub mod event;
mod fencing;
pub mod identity;
pub mod ledger;
pub mod limits;
mod offset;
mod permits;
mod queue;
pub mod scheduler;
pub mod views;
pub mod wire;
