//! Which scheduler leads, how far away it is, and what happens while none answers.

use super::known_epoch::KnownEpoch;
use super::reachability::Reachability;
use super::report::SilenceReport;
use crate::fallback::policy::FallbackPolicy;
use rampmeter_protocol::lateness::BaseDelay;
use rampmeter_protocol::time::Time;

#[derive(Debug, Default)]
pub(crate) struct KnownSchedulers {
    pub(crate) epoch: KnownEpoch,
    pub(crate) base_delay: BaseDelay,
    pub(crate) reachability: Reachability,
    pub(crate) silence_report: SilenceReport,
    pub(crate) fallback: FallbackPolicy,
    pub(crate) frozen_until: Time,
}
