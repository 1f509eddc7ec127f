//! Permit loops, one for each resource that this process leads. They answer the requests for permits.
//!
//! [`permit_loop`] runs the parts: `incoming` reads messages, `answers` drives the core and writes answers, `watch`
//! checks whether this loop leads, `term_guard` holds answers back if not, `succession` ends the term without loss.

pub mod answers;
pub(crate) mod incoming;
pub mod loop_handle;
mod orders;
pub mod permit_loop;
pub mod permit_thread;
mod recent_counts;
pub(crate) mod reports;
pub(crate) mod succession;
pub(crate) mod term_guard;
pub(crate) mod timer;
pub mod watch;
