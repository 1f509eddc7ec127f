//! What the store must hold before permits are granted, and what a successor goes on from.

mod allowance;
mod fence;
mod key_budgets;
pub mod key_pages;
pub mod learned;
mod level_marks;
pub mod mark;
mod pending;
pub mod snapshot;

pub(crate) use fence::{Fence, NEAR};
pub(crate) use key_pages::{KeyPages, PageNumber};
pub(crate) use learned::{LearnedMark, Policy};
pub(crate) use mark::MarkNumber;
pub(crate) use pending::Pending;
pub(crate) use snapshot::KeyMark;
