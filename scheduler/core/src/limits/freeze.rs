//! The freeze of one limit: the upstream has asked for a pause, or an operator has ordered one.

use super::timeline::StartKey;
use crate::ids::Connection;
use rampmeter_protocol::time::{Span, Time};

/// How long other calls wait for the probe's outcome if its worker does not report it.
const PROBE_TIMEOUT: Span = Span::from_secs(2);
/// The longest pause on one client's report. After it, the probe call asks the upstream again.
pub(crate) const UNCONFIRMED: Span = Span::from_secs(60);

/// No call starts before the freeze ends. Then one call starts, the probe. Other calls follow once
/// the probe is served, or its outcome is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freeze {
    until: Time,
    /// Whether an operator ordered it.
    is_ordered: bool,
    probe: Option<StartKey>,
    /// The first connection that reported a longer pause.
    reported_by: Connection,
}

impl Freeze {
    /// A freeze for a pause that the upstream asks for.
    pub(crate) fn new(until: Time) -> Self {
        Freeze { until, is_ordered: false, probe: None, reported_by: Connection::UNKNOWN }
    }

    /// A freeze that an operator orders.
    pub(crate) fn ordered(until: Time) -> Self {
        Freeze { is_ordered: true, ..Freeze::new(until) }
    }

    /// `added`, joined with the existing freeze if there is one.
    pub(crate) fn join(existing: Option<Freeze>, added: Freeze) -> Self {
        existing.map_or(added, |freeze| freeze.joined(added))
    }

    /// Both freezes as one that ends with the later one. Another probe follows, and the report of a
    /// longer pause stays.
    fn joined(self, other: Freeze) -> Self {
        let Freeze { until, is_ordered, .. } = if other.until > self.until { other } else { self };
        Freeze { until, is_ordered, probe: None, ..self }
    }

    pub(crate) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// Notes that `connection` reports a longer pause. The first such report counts.
    pub(crate) fn note_longer_pause(&mut self, connection: Connection) {
        if self.reported_by == Connection::UNKNOWN {
            self.reported_by = connection;
        }
    }

    /// Whether `connection` is a second one that reports a longer pause.
    pub(crate) fn is_confirmed_by(&self, connection: Connection) -> bool {
        connection.differs_from(self.reported_by)
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
