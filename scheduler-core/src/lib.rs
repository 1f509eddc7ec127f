//! Decides when calls to a rate-limited upstream may start; does nothing else.
//!
//! Deterministic, without I/O, clock, randomness or threads: one [`scheduler::Scheduler`] per resource
//! is told what happens and when, and says what to answer. A start is the earliest time at which every bucket of
//! a request can pay, there and at every start already committed after it, with capping at
//! capacity taken into account.
//!
//! From the outside in: [`event`] is all that can happen and [`command`] all that is to be done;
//! [`scheduler`] takes the one and gives the other, [`wire`] translates both; a `ledger` finds starts that suit all
//! buckets; a `bucket` is a token bucket with promises; a `timeline` answers what a promise
//! more would do to those behind it; [`credit`] is the arithmetic.

pub mod bill;
pub mod command;
pub mod credit;
pub mod event;
pub mod limit;
pub mod refusal;
pub mod report;
pub mod resource;
pub mod scheduler;
pub mod snapshot;
pub mod spec;
pub mod wire;

mod ask;
mod bills;
mod bucket;
mod clients;
mod explain;
mod index;
mod ledger;
mod line;
mod news;
mod order;
mod pace;
mod peaks;
mod permits;
mod plan;
mod scatter;
mod settle;
mod shape;
mod slab;
mod timeline;
mod virtual_time;
