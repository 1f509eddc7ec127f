//! What a session knows of one resource's schedulers.

use super::fallback_policy::FallbackPolicy;
use super::known_epoch::KnownEpoch;
use super::reachability::Reachability;
use super::silence_report::SilenceReport;
use rampmeter_protocol::lateness::BaseDelay;
use rampmeter_protocol::time::Time;

/// Which scheduler leads, how far away it is, and what happens while none answers.
#[derive(Debug, Default)]
pub(super) struct KnownSchedulers {
    pub(super) epoch: KnownEpoch,
    /// The base delay of the answers of that epoch's leader.
    pub(super) base_delay: BaseDelay,
    pub(super) reachability: Reachability,
    pub(super) silence_report: SilenceReport,
    pub(super) fallback: FallbackPolicy,
    /// When the last freeze that was announced ends.
    pub(super) frozen_until: Time,
}
