//! The behaviour of the core, rule by rule. One program, because each takes as long to link as to
//! run.

#![expect(clippy::unwrap_used, reason = "a test stops where its setting fails, helpers included")]

/// What most of these tests use.
mod prelude {
    pub(crate) use crate::common::*;
    pub(crate) use rampmeter_policy::Resource;
    pub(crate) use rampmeter_policy::observation::{Observation, Scope, Verdict};
    pub(crate) use rampmeter_policy::refusal::Refusal;
    pub(crate) use rampmeter_policy::spec::{
        Algorithm, Alignment, Applies, ClassSpec, Learn, LimitSpec, Margin, ResourceSpec, StartPolicy,
    };
    pub(crate) use rampmeter_protocol::amount::Amount;
    pub(crate) use rampmeter_protocol::epoch::Epoch;
    pub(crate) use rampmeter_protocol::explain::Question;
    pub(crate) use rampmeter_protocol::id::PermitId;
    pub(crate) use rampmeter_protocol::labels::Labels;
    pub(crate) use rampmeter_protocol::request::Mode;
    pub(crate) use rampmeter_protocol::time::{Span, Time};
    pub(crate) use rampmeter_protocol::wall_clock::WallClockOrigin;
    pub(crate) use rampmeter_scheduler_core::durability::checkpoint::Checkpoint;
    pub(crate) use rampmeter_scheduler_core::durability::snapshot::Snapshot;
    pub(crate) use rampmeter_scheduler_core::event::{Event, Outcome};
    pub(crate) use rampmeter_scheduler_core::scheduler::Scheduler;
    pub(crate) use std::collections::{BTreeMap, BTreeSet};
}

/// Declares a test for each name: the resource, several of them, or a world; other limits that it may switch
/// to by name; and the script that is played.
macro_rules! scripts {
    ($($(#[$about:meta])* $name:ident($spec:expr $(, $set:literal: $others:expr)*): $script:literal)*) => {
        $($(#[$about])* #[test] fn $name() { crate::common::play_in($spec, &[$(($set, $others)),*], $script); })*
    };
}

mod blame;
mod bounds;
mod budgets;
mod calendars;
mod changes;
mod claims;
mod classes;
#[path = "../common/mod.rs"]
mod common;
mod counts;
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
mod pools;
mod readings;
mod reasons;
mod rejections;
mod repeats;
mod restart;
mod rules;
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
mod ways;
mod windows;
