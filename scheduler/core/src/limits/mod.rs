//! The arithmetic of one limit: what is left of it, what is promised, and the earliest start.

mod bucket;
mod bucket_record;
mod expected_usage;
mod freeze;
mod level_history;
mod pending_debits;
mod timeline;
mod upstream_reports;
pub mod usage;
mod window_phase;
mod window_start;
mod window_state;

pub(crate) use bucket::{Bucket, CallMade};
pub(crate) use bucket_record::{BucketRecord, ListedStarts, NEAR};
pub(crate) use freeze::{Freeze, PauseClaim};
pub use pending_debits::DebitSnapshot;
pub(crate) use timeline::{StartKey, just_past};
pub(crate) use upstream_reports::{BucketReading, RAISE_PART};
pub(crate) use usage::UsageBlock;
pub(crate) use window_phase::Interval;
pub(crate) use window_state::WindowState;
