//! The arithmetic of one limit: what is left of it, what is promised, and the earliest start.

mod bucket;
mod freeze;
mod level_history;
mod pending_debits;
mod timeline;
mod unsettled;
pub mod usage;
mod windows;

pub(crate) use bucket::{Bucket, CallMade};
pub(crate) use freeze::{Freeze, PauseClaim};
pub use pending_debits::DebitSnapshot;
pub(crate) use timeline::{StartKey, just_past};
pub(crate) use unsettled::SETTLED_WITHIN;
pub(crate) use usage::{BucketRecord, MAX_CLOCK_SKEW, NEAR, UsageBlock};
pub(crate) use windows::{BucketReading, Interval, RAISE_PART, WindowState};
