//! The arithmetic of one limit: what is left of it, what is promised, and the earliest start.

mod bucket;
pub mod credit;
mod draw;
mod frame;
mod freeze;
mod holdings;
mod level_history;
mod taken;
mod timeline;
mod token_bucket;
mod window_start;
mod withheld;

pub(crate) use bucket::Bucket;
pub(crate) use credit::{Credit, Rate, STEPS};
pub(crate) use draw::Draw;
pub(crate) use frame::Frame;
pub use freeze::FreezeMark;
pub(crate) use taken::{Block, distance};
pub use taken::{Taken, TakenSpan};
pub(crate) use timeline::{Key, just_after};
pub(crate) use withheld::Withheld;
