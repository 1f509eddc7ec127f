//! The store, leadership, and what a restart keeps.

mod differing;
mod hand_over;
mod hearsay;
mod loss;
mod restart;
mod rollback;
mod spread;
mod starting;
mod writes;
