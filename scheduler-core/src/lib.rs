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

pub mod applies;
pub mod bill;
pub mod command;
pub mod credit;
pub mod event;
pub mod learned;
pub mod limit;
mod limit_set;
pub mod mark;
pub mod observation;
pub mod refusal;
pub mod report;
pub mod resource;
pub mod rules;
pub mod scheduler;
pub mod snapshot;
pub mod spec;
pub mod undelivered;
pub mod wire;

mod allowance;
mod aside;
mod ask;
mod bills;
mod book;
mod bucket;
mod change;
mod checks;
mod clients;
mod clock;
mod delivery;
mod estimates;
mod explain;
mod feedback;
mod fence;
mod frame;
mod freeze;
mod gate;
mod headcount;
mod holdings;
mod index;
mod key_budgets;
pub mod key_pages;
mod keys;
mod learner;
mod ledger;
mod level_history;
mod level_marks;
mod line;
mod listing;
mod news;
mod order;
mod pass;
mod pending;
mod permits;
mod plan;
mod proof;
mod reach;
mod settle;
mod shadow;
mod slab;
mod taken;
mod timeline;
mod token_bucket;
mod treap;
mod virtual_time;
mod withheld;
