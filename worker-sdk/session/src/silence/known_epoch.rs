//! The epoch of the leader that a session believes.

use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::time::{Span, Time};

/// How long an epoch counts that only an event has announced. A new leader answers sooner.
const UNCONFIRMED: Span = Span::from_secs(10);

/// The highest epoch of a resource in an answer or an event. Answers of lower epochs are not
/// believed, because their leader was replaced. An event alone is weaker evidence: its epoch is
/// forgotten unless an answer confirms it, so that no false event makes a session deaf.
#[derive(Debug, Default)]
pub(crate) struct KnownEpoch {
    known: Option<Known>,
}

#[derive(Debug)]
struct Known {
    epoch: Epoch,
    /// Until when it counts, if no answer has confirmed it.
    until: Time,
}

impl KnownEpoch {
    /// Returns the epoch to send to the leader.
    pub(crate) fn get(&self) -> Option<Epoch> {
        self.known.as_ref().map(|known| known.epoch)
    }

    /// Returns whether the leader of `epoch` has a successor.
    pub(crate) fn is_past(&self, now: Time, epoch: Epoch) -> bool {
        self.known.as_ref().is_some_and(|known| epoch < known.epoch && now < known.until)
    }

    /// Notes the epoch of a leader that an event announces.
    pub(crate) fn announce(&mut self, now: Time, epoch: Epoch) {
        if self.get() != Some(epoch) {
            self.known = Some(Known { epoch, until: now + UNCONFIRMED });
        }
    }

    /// Notes the epoch of a leader that has answered. Returns whether that leader is new.
    pub(crate) fn confirm(&mut self, epoch: Epoch) -> bool {
        let known = self.known.replace(Known { epoch, until: Time::NEVER });
        known.is_some_and(|known| epoch > known.epoch)
    }
}
