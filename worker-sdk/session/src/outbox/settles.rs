//! Settles to be sent, and those just sent.
//!
//! A scheduler confirms each message before it grants anything that follows from it, and NATS
//! reports if no scheduler was there. What is neither confirmed nor lost is sent again to the next
//! leader. A confirmed settle is not: after a crash it might free the place of a later call.

use super::payload::{ArrayPayload, MAX_ELEMENTS};
use crate::event::BatchNumber;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::trace_context::TraceContexts;
use std::collections::VecDeque;

/// Bound on waiting settles. Beyond it the oldest is dropped: its permit counts as used at the estimated cost.
const MAX_SETTLES: usize = 65_536;
/// How many unconfirmed messages are remembered, far more than are in transit at a time.
const MAX_SENT: usize = 256;
/// How many messages wait to be sent again. Beyond it the oldest is dropped.
const MAX_AGAIN: usize = MAX_SETTLES / MAX_ELEMENTS;

#[derive(Debug, Default)]
pub(crate) struct Settles {
    waiting: VecDeque<Settle<'static>>,
    again: VecDeque<Message>,
    sent: VecDeque<(BatchNumber, Message)>,
}

/// The settles of one message, and their traces.
pub(crate) type Message = (Vec<u8>, TraceContexts);

impl Settles {
    pub(crate) fn push(&mut self, settle: Settle<'static>) {
        if self.waiting.len() == MAX_SETTLES {
            self.waiting.pop_front();
        }
        self.waiting.push_back(settle);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.again.is_empty()
    }

    /// Removes the next message, which travels as `batch`.
    pub(crate) fn take(&mut self, batch: BatchNumber) -> Option<Message> {
        let message = self.again.pop_front().or_else(|| self.next_message())?;
        if self.sent.len() == MAX_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back((batch, message.clone()));
        Some(message)
    }

    fn next_message(&mut self) -> Option<Message> {
        let mut array = ArrayPayload::default();
        while !array.is_full() {
            let Some(settle) = self.waiting.pop_front() else { break };
            array.push_traced(&settle, settle.trace);
        }
        (!array.is_empty()).then(|| array.finish_traced())
    }

    pub(crate) fn confirmed(&mut self, batch: BatchNumber) -> Option<Message> {
        let place = self.sent.iter().position(|(sent, _)| *sent == batch)?;
        self.sent.remove(place).map(|(_, message)| message)
    }

    /// Resends the undelivered message of `batch`. Returns whether it is remembered.
    pub(crate) fn undelivered(&mut self, batch: BatchNumber) -> bool {
        let message = self.confirmed(batch);
        let is_known = message.is_some();
        self.again.extend(message);
        self.again.drain(..self.again.len().saturating_sub(MAX_AGAIN));
        is_known
    }

    pub(crate) fn send_all_again(&mut self) {
        self.again.extend(self.sent.drain(..).map(|(_, message)| message));
        self.again.drain(..self.again.len().saturating_sub(MAX_AGAIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::id::PermitId;

    fn used(serial: usize) -> Settle<'static> {
        Settle::used(PermitId::secret(serial as u128))
    }

    #[test]
    fn the_oldest_settle_is_dropped_at_the_bound() {
        let mut settles = Settles::default();
        (0..=MAX_SETTLES).for_each(|serial| settles.push(used(serial)));
        assert_eq!((settles.waiting.len(), &settles.waiting[0].id), (MAX_SETTLES, &PermitId::secret(1)));
    }

    #[test]
    fn the_oldest_messages_are_forgotten_at_the_bounds() {
        let mut settles = Settles::default();
        for serial in 0..=MAX_SENT {
            settles.push(used(serial));
            settles.take(BatchNumber(serial as u64)).unwrap();
        }
        assert!(!settles.undelivered(BatchNumber(0)) && settles.is_empty());
        assert!(settles.undelivered(BatchNumber(1)) && !settles.is_empty());
        for serial in 0..=MAX_AGAIN {
            settles.sent.push_back((BatchNumber(0), (vec![serial as u8], TraceContexts::default())));
            assert!(settles.undelivered(BatchNumber(0)));
        }
        assert_eq!((settles.again.len(), &settles.again[0].0), (MAX_AGAIN, &vec![1]));
    }
}
