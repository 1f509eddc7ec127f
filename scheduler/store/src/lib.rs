//! Records of resources in JetStream KV, and what they mean over time.
//!
//! One value per resource names its leader, and contains what a successor must count as spent. It is written
//! by compare-and-set, so that of two schedulers only one goes on. A graceful stop also writes the
//! remembered permits. Rules that are applied while schedulers run have a bucket of their own.

mod bucket;
mod clock_reading;
mod day_usage;
mod envelope;
#[cfg(test)]
mod golden;
mod kv;
mod pages;
mod record;
mod rules;
mod state_keys;
mod uses;

pub use bucket::{OpenError, StoreError};
pub use clock_reading::{BootTime, ClockReading, boot_ms};
pub use day_usage::{HOURS, MAX_CLIENTS, StoredClientUsage, StoredDayUsage};
pub use envelope::RecordError;
pub use kv::{CLOCK_KEY, MAX_PERMITS, Revision, Store, StoredEntry, StoredState, decode};
pub use record::{FullestKey, KeysRecord, StateRecord, StoredPages};
pub use rules::{Edition, RuleStore, RulesRevision};
pub use state_keys::{SignatureFault, StateKeys};
