//! A pause of one limit, taken from the upstream's own word.

use super::timeline::StartKey;
use rampmeter_protocol::time::{Span, Time};

/// How long others wait for what the first call behind a freeze is told, if its worker does not say.
const PATIENCE: Span = Span::from_secs(2);

/// Nobody starts before its end, and then one alone, the probe: the others follow once that was not told 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freeze {
    until: Time,
    probe: Option<StartKey>,
}

impl Freeze {
    /// A freeze until then.
    pub(crate) fn new(until: Time) -> Self {
        Freeze { until, probe: None }
    }

    /// When it ends.
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// From when on one more may start.
    pub(crate) fn opens(&self) -> Time {
        self.probe.map_or(self.until, |probe| probe.at + PATIENCE)
    }

    /// Notes a start: the first behind the end is the probe.
    pub(crate) fn note_start(&mut self, key: StartKey) {
        if self.probe.is_none() && key.at >= self.until {
            self.probe = Some(key);
        }
    }

    /// Notes that a start was taken back.
    pub(crate) fn note_return(&mut self, key: StartKey) {
        if self.probe == Some(key) {
            self.probe = None;
        }
    }

    /// Whether `key` is the probe.
    pub(crate) fn is_probed_by(&self, key: StartKey) -> bool {
        self.probe == Some(key)
    }

    /// Whether nobody has come to probe it for so long that nobody may.
    pub(crate) fn is_forgotten(&self, now: Time) -> bool {
        self.probe.is_none() && self.until + PATIENCE <= now
    }

    /// Whether nobody says how the probe went.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.probe.is_some_and(|probe| probe.at + PATIENCE <= now)
    }
}
