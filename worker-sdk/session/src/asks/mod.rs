//! The pending asks, by number. The session bounds how many there are.

pub(super) mod ask;
pub(super) mod cancelled;
pub(super) mod ids;
pub(super) mod longest_silence;

use super::event::{AskNumber, BatchNumber, ResourceNumber};
use ask::{Ask, Due};
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::time::Time;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Asks {
    by_number: BTreeMap<AskNumber, Ask>,
    /// No ask is due before this. Nearly all asks are answered long before they are due, so that scanning all of
    /// them every few seconds costs less than a queue that keeps them in order.
    earliest_due: Time,
}

impl Default for Asks {
    fn default() -> Self {
        Asks { by_number: BTreeMap::new(), earliest_due: Time::NEVER }
    }
}

impl Asks {
    pub(super) fn insert(&mut self, number: AskNumber, ask: Ask) {
        self.earliest_due = self.earliest_due.min(ask.next_due());
        let before = self.by_number.insert(number, ask);
        assert!(before.is_none(), "the driver used {number:?} twice");
    }

    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(super) fn get(&self, number: AskNumber) -> Option<&Ask> {
        self.by_number.get(&number)
    }

    /// For changes that make an ask due no earlier than before.
    pub(super) fn get_mut(&mut self, number: AskNumber) -> Option<&mut Ask> {
        self.by_number.get_mut(&number)
    }

    pub(super) fn remove(&mut self, number: AskNumber) -> Option<Ask> {
        self.by_number.remove(&number)
    }

    pub(super) fn of_id(&self, id: &str) -> Option<AskNumber> {
        let has_id = |ask: &Ask| ask.request.id.as_ref().is_some_and(|own| own.as_str() == id);
        self.by_number.iter().find(|(_, ask)| has_id(ask)).map(|(number, _)| *number)
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (AskNumber, Ask)> + use<> {
        std::mem::take(self).by_number.into_iter()
    }

    /// Marks an unsent ask as sent with `batch` and returns what to write.
    pub(super) fn send(
        &mut self,
        now: Time,
        number: AskNumber,
        batch: BatchNumber,
        epoch: Option<Epoch>,
    ) -> &PermitRequest<'static> {
        let ask = self.by_number.get_mut(&number).expect("an outbox holds pending asks only");
        ask.send(now, batch, epoch);
        self.earliest_due = self.earliest_due.min(ask.next_due());
        &ask.request
    }

    pub(super) fn postpone(&mut self, number: AskNumber, until: Time) {
        if let Some(ask) = self.by_number.get_mut(&number) {
            ask.postpone(until);
            self.earliest_due = self.earliest_due.min(ask.next_due());
        }
    }

    pub(super) fn of_resource(&self, resource: ResourceNumber) -> impl Iterator<Item = AskNumber> {
        self.by_number.iter().filter(move |(_, ask)| ask.resource == resource).map(|(number, _)| *number)
    }

    pub(super) fn oldest_sent(&self, resource: ResourceNumber) -> Option<AskNumber> {
        let out = self.by_number.iter().find(|(_, ask)| ask.resource == resource && ask.is_sent());
        out.map(|(number, _)| *number)
    }

    pub(super) fn of_batch(&self, batch: BatchNumber) -> Vec<AskNumber> {
        self.numbers(|ask| ask.is_sent_in(batch))
    }

    /// Takes back everything that was sent to `resource`, and returns the numbers to send again.
    pub(super) fn unsend_all_of(&mut self, now: Time, resource: ResourceNumber) -> Vec<AskNumber> {
        let sent = self.by_number.iter_mut().filter(|(_, ask)| ask.resource == resource && !ask.is_unsent());
        sent.map(|(number, ask)| {
            ask.unsend(now);
            *number
        })
        .collect()
    }

    /// Notes that answers are owed about all asks: the scheduler that knew them may be gone.
    pub(super) fn expect_answers(&mut self, now: Time) {
        self.by_number.values_mut().for_each(|ask| ask.expect_answer(now));
    }

    pub(super) fn unanswered_since(&self, resource: ResourceNumber) -> Option<Time> {
        self.by_number.values().filter(|ask| ask.resource == resource).filter_map(Ask::unanswered).min()
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        (!self.by_number.is_empty()).then_some(self.earliest_due)
    }

    pub(super) fn take_due(&mut self, now: Time) -> Vec<(AskNumber, Due)> {
        if now < self.earliest_due {
            return Vec::new();
        }
        let due = self.by_number.iter().filter_map(|(number, ask)| Some((*number, ask.due(now)?))).collect();
        let remain = self.by_number.values().filter(|ask| ask.deadline > now);
        self.earliest_due = remain.map(|ask| ask.next_due_after(now)).min().unwrap_or(Time::NEVER);
        due
    }

    fn numbers(&self, chosen: impl Fn(&Ask) -> bool) -> Vec<AskNumber> {
        self.by_number.iter().filter(|(_, ask)| chosen(ask)).map(|(number, _)| *number).collect()
    }
}
