//! The store, leadership, and what a restart keeps.

mod differing;
mod first_start;
mod hand_over;
mod hearsay;
mod large_records;
mod restart;
mod rollback;
mod spread;
mod starting;
mod state_keys;
mod writes;
