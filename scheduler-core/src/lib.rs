//! Decides when calls to a rate-limited upstream may start; does nothing else.
//!
//! Deterministic, without I/O, clock, randomness or threads: one [`scheduler::Scheduler`] per resource
//! is told what happens and when, and says what to answer. A start is the earliest time at which every bucket of
//! a request can pay, there and at every start already committed after it, with capping at
//! capacity taken into account.
//!
//! From the outside in: [`event`] is all that can happen and [`command`] all that is to be done; [`scheduler`] takes the one
//! and gives the other, [`wire`] translates both. Its rooms, the upper ones first:
//!
//! * [`views`]: what people are shown.
//! * [`durability`]: what the store must hold before permits are granted.
//! * `queue`: which request goes next.
//! * [`adaptation`]: what the upstream teaches.
//! * [`ledger`]: what a request takes of each limit, and a start that suits all.
//! * [`limits`]: the arithmetic of one limit.
//! * [`policy`]: what is configured.

pub mod adaptation;
pub mod arithmetic;
mod collections;
pub mod command;
pub mod durability;
pub mod event;
mod fencing;
pub mod ids;
pub mod ledger;
pub mod limits;
pub mod policy;
mod queue;
pub mod refusal;
pub mod scheduler;
pub mod views;
pub mod wire;
