//! The arithmetic of one limit: what is left of it, what is promised, and the earliest start.

mod bucket;
mod claims;
mod counted_bucket;
mod expected_usage;
mod freeze;
mod level_history;
mod paced_window;
mod pending_debits;
mod timeline;
mod token_bucket;
mod upstream_reports;
pub mod usage;
mod window_phase;
mod window_start;

pub(crate) use bucket::{Bucket, CallMade};
pub(crate) use claims::BucketReading;
pub(crate) use freeze::{Freeze, UNCONFIRMED};
pub(crate) use pending_debits::PendingDebits;
pub(crate) use timeline::{StartKey, just_after, just_past};
pub(crate) use token_bucket::TokenBucket;
pub(crate) use usage::{Usage, UsageBlock};
pub(crate) use window_phase::Interval;
