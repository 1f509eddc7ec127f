//! The state of resources in JetStream KV.
//!
//! One value per resource names its leader, and tells a successor what to count as spent. It is
//! written by compare-and-set, so that of two schedulers only one goes on. A graceful stop also
//! writes the remembered permits. Rules that are applied while schedulers run have a bucket of
//! their own.

mod array_form;
mod bucket;
mod day_of_use;
mod envelope;
mod found_record;
mod kv;
mod learned;
mod moment;
mod operation;
mod page_record;
mod pages;
mod permit_record;
mod record;
mod rows;
mod rules;
mod usage_record;
mod uses;

pub use bucket::OpenError;
pub use day_of_use::{DayOfUse, HOURS, MAX_CLIENTS, UseRow};
pub use envelope::Damage;
pub use found_record::FoundRecord;
pub(crate) use kv::CLOCK_KEY;
pub use kv::{Found, FoundState, MAX_PERMITS, Revision, Store, decode, parse};
pub(crate) use moment::boot_ms;
pub use moment::{BootTime, Moment};
pub use operation::StoreError;
pub use page_record::StoredPages;
pub use permit_record::PermitRecord;
pub use record::{FullestKey, KeysRecord, LevelRecord, StateRecord};
pub use rows::{CostRow, FreezeRow};
pub use rules::{Edition, RuleStore, RulesRevision};
