//! What waits to be sent to one resource's scheduler.

use super::backoff::Backoff;
use super::payload::ArrayPayload;
use super::vocabulary::AskNumber;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::Time;
use std::collections::{BTreeSet, VecDeque};

/// Settles kept while nobody takes them. Above this the oldest is dropped: its permit counts as used
/// at its estimated cost, which is safe.
const MOST_SETTLES: usize = 65_536;

/// One resource's outbox.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The highest epoch that an answer or an event has named.
    pub(super) epoch: Option<u64>,
    /// Oldest first: what is asked again goes before what is new.
    pub(super) unsent: BTreeSet<AskNumber>,
    pub(super) backoff: Backoff,
    settles: VecDeque<Settle<'static>>,
}

impl Lane {
    pub(super) fn settle(&mut self, settle: Settle<'static>) {
        if self.settles.len() == MOST_SETTLES {
            self.settles.pop_front();
        }
        self.settles.push_back(settle);
    }

    /// From when on there is something to send.
    pub(super) fn opens(&self) -> Option<Time> {
        let idle = self.unsent.is_empty() && self.settles.is_empty();
        (!idle).then(|| self.backoff.until())
    }

    pub(super) fn open(&mut self) {
        self.backoff.hold_until(Time::ORIGIN);
    }

    /// The settles of one message.
    pub(super) fn take_settles(&mut self) -> Option<Vec<u8>> {
        let mut array = ArrayPayload::default();
        while !array.is_full() {
            let Some(settle) = self.settles.pop_front() else { break };
            array.push(&settle);
        }
        (!array.is_empty()).then(|| array.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::id::PermitId;

    #[test]
    fn the_oldest_settle_is_dropped_when_nobody_takes_them() {
        let mut lane = Lane::default();
        for serial in 0..=MOST_SETTLES as u64 {
            lane.settle(Settle::used(PermitId::generated(1, serial)));
        }
        assert_eq!(lane.settles.len(), MOST_SETTLES);
        assert_eq!(lane.settles[0].id, PermitId::generated(1, 1));
    }
}
