//! The session in virtual time: only events and numbers decide what it does.

/// What most of these tests use.
mod prelude {
    pub(crate) use crate::network::elements;
    pub(crate) use crate::script::check;
    pub(crate) use rampmeter_protocol::epoch::Epoch;
    pub(crate) use rampmeter_protocol::id::PermitId;
    pub(crate) use rampmeter_protocol::labels::Labels;
    pub(crate) use rampmeter_protocol::millis::Millis;
    pub(crate) use rampmeter_protocol::request::{Mode, PermitRequest};
    pub(crate) use rampmeter_protocol::settle::Settle;
    pub(crate) use rampmeter_protocol::text::Text;
    pub(crate) use rampmeter_protocol::time::{Span, Time};
    pub(crate) use rampmeter_worker_session::*;
    pub(crate) use serde_json::{Value, json};
    pub(crate) use std::collections::{BTreeMap, BTreeSet};
    pub(crate) use std::ops::Range;
    pub(crate) use std::time::Duration;
}

/// Declares a test for each name: the script that it plays.
macro_rules! scripts {
    ($($(#[$about:meta])* $name:ident: $script:literal)*) => {
        $($(#[$about])* #[test] fn $name() { crate::script::check($script); })*
    };
}

mod fleet;
mod herd;
mod leases;
mod network;
mod relaying;
mod rules;
mod script;
mod session_scripts;
mod silence_report;
mod subject_classes;
mod unreachable;
