//! The freeze of one limit: the upstream has asked for a pause, or an operator has ordered one.

use super::timeline::StartKey;
use rampmeter_protocol::time::{Span, Time};

/// How long other calls wait for the probe's outcome if its worker does not report it.
const PROBE_TIMEOUT: Span = Span::from_secs(2);
/// The longest pause on the report of one call. After it, the probe call asks the upstream again, and
/// its report is believed.
pub(crate) const UNCONFIRMED: Span = Span::from_secs(60);

/// No call starts before the freeze ends. Then one call starts, the probe. Other calls follow once
/// the probe is served, or its outcome is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freeze {
    until: Time,
    /// Whether an operator ordered it.
    is_ordered: bool,
    probe: Option<StartKey>,
}

impl Freeze {
    /// A freeze for a pause that the upstream asks for.
    pub(crate) fn new(until: Time) -> Self {
        Freeze { until, is_ordered: false, probe: None }
    }

    /// A freeze that an operator orders.
    pub(crate) fn ordered(until: Time) -> Self {
        Freeze { is_ordered: true, ..Freeze::new(until) }
    }

    /// `added`, joined with the existing freeze if there is one.
    pub(crate) fn join(existing: Option<Freeze>, added: Freeze) -> Self {
        existing.map_or(added, |freeze| freeze.joined(added))
    }

    /// The freeze that ends later, to be probed anew.
    fn joined(self, other: Freeze) -> Self {
        Freeze { probe: None, ..if other.until > self.until { other } else { self } }
    }

    pub(crate) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// When the next call may start.
    pub(crate) fn next_start(&self) -> Time {
        self.probe.map_or(self.until, |probe| probe.at + PROBE_TIMEOUT)
    }

    /// The first start after the end is the probe.
    pub(crate) fn note_start(&mut self, key: StartKey) {
        if self.probe.is_none() && key.at >= self.until {
            self.probe = Some(key);
        }
    }

    /// A probe that is returned leaves its role to another call.
    pub(crate) fn note_return(&mut self, key: StartKey) {
        if self.probe == Some(key) {
            self.probe = None;
        }
    }

    pub(crate) fn is_probed_by(&self, key: StartKey) -> bool {
        self.probe == Some(key)
    }

    /// Whether the outcome of the probe is awaited.
    pub(crate) fn is_being_probed(&self) -> bool {
        self.probe.is_some()
    }

    /// Whether the freeze ended so long ago without a probe that none is needed any more.
    pub(crate) fn is_unprobed(&self, now: Time) -> bool {
        self.probe.is_none() && self.until + PROBE_TIMEOUT <= now
    }

    /// Whether the probe's outcome is overdue.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.probe.is_some_and(|probe| probe.at + PROBE_TIMEOUT <= now)
    }
}
