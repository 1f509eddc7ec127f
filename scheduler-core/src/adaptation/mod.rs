//! What the upstream teaches: its rate, its stock, and what calls cost.

mod book;
mod estimates;
mod feedback;
mod learner;
pub mod observation;
mod proof;

pub(crate) use book::Book;
pub(crate) use estimates::Estimates;
pub(crate) use observation::{Observation, Verdict};
