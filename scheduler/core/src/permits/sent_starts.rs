//! Starts whose answers may not have arrived yet.

use crate::collections::Slot;
use rampmeter_protocol::time::Time;
use std::collections::VecDeque;

/// The most sent starts that are kept: the grants of some milliseconds. Beyond this number, the
/// oldest counts as delivered.
const MAX_SENT: usize = 65_536;

/// Starts that were sent since answers were last known to arrive in time.
///
/// Invariant: starts are kept only if the driver reports deliveries, in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct SentStarts {
    is_watched: bool,
    are_answers_late: bool,
    sent: VecDeque<SentStart>,
}

/// A start that was sent, or counts as sent, at this time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentStart {
    pub(crate) at: Time,
    pub(crate) slot: Slot,
    /// Tells the start from a later permit's in the same slot.
    pub(crate) serial: u64,
}

impl SentStarts {
    /// Whether answers are held up, so that waiting requests are granted nothing.
    pub(crate) fn are_late(&self) -> bool {
        self.are_answers_late
    }

    pub(crate) fn note_sent(&mut self, start: SentStart) {
        if self.is_watched {
            self.sent.push_back(start);
        }
        if self.sent.len() > MAX_SENT {
            self.sent.pop_front();
        }
    }

    /// Notes that answers sent until `until` have arrived. Returns whether answers were late
    /// before.
    pub(crate) fn note_delivered(&mut self, until: Time) -> bool {
        while self.sent.pop_front_if(|sent| sent.at <= until).is_some() {}
        self.is_watched = true;
        std::mem::take(&mut self.are_answers_late)
    }

    /// Notes that answers do not arrive, and takes all sent starts. The caller puts them off and
    /// notes them again.
    pub(crate) fn take_late(&mut self) -> VecDeque<SentStart> {
        self.are_answers_late = true;
        std::mem::take(&mut self.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_SENT, SentStart, SentStarts};
    use crate::collections::Slab;
    use rampmeter_protocol::time::{Span, Time};

    #[test]
    fn the_oldest_start_beyond_the_bound_counts_as_delivered() {
        let slot = Slab::default().insert(());
        let mut starts = SentStarts::default();
        starts.note_delivered(Time::ORIGIN);
        for serial in 0..=MAX_SENT as u64 {
            starts.note_sent(SentStart { at: Time::ORIGIN + Span::from_nanos(serial + 1), slot, serial });
        }
        let kept = starts.take_late();
        assert_eq!((kept.len(), kept.front().map(|sent| sent.serial)), (MAX_SENT, Some(1)));
    }
}
