//! The behaviour of the core, rule by rule. One program, because each takes as long to link as to
//! run.

#![expect(clippy::unwrap_used, reason = "a test stops where its setting fails, helpers included")]

mod bounds;
mod calendars;
mod changes;
mod claims;
mod classes;
#[path = "../common/mod.rs"]
mod common;
mod counts;
mod credit;
mod deadlines;
mod delivery;
mod exactness;
mod fairness;
mod feedback;
mod fencing;
mod freezes;
mod key_queues;
mod keys;
mod leases;
mod left;
mod margins;
mod matching;
mod mixed;
mod pace;
mod readings;
mod reasons;
mod rejections;
mod repeats;
mod restart;
mod rules;
mod saturation;
mod settling;
mod shares;
mod stated_capacity;
mod status;
mod steered;
mod subject_classes;
mod uncounted;
mod undelivered;
mod useful_workers;
mod uses;
mod wakeups;
mod windows;
