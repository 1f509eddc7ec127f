//! Telling waiting requests how they stand.

use super::Scheduler;
use crate::collections::Slot;
use crate::command::Command;
use crate::ledger::Offer;
use crate::queue::is_worth_telling;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// Tells the next slice of waiting requests how they stand: in a full round all of them,
    /// otherwise those whose start has moved.
    pub(crate) fn send_updates(&mut self, now: Time) {
        let (full, slice) = self.queues.updates.next_slice(now);
        for slot in slice {
            let (position, offer) = self.waits().outlook(now, slot);
            if full || is_worth_telling(now, self.permits.get(slot).waiting().last_estimate, offer.at) {
                self.send_update(now, slot, position, offer);
            }
        }
    }

    /// Tells a waiting request how it stands, if it wants updates. A change of limits tells all at
    /// its end.
    pub(crate) fn tell(&mut self, now: Time, slot: Slot) {
        if self.permits.get(slot).waiting().progress && !self.former.are_charging() {
            let (position, offer) = self.waits().outlook(now, slot);
            self.send_update(now, slot, position, offer);
        }
    }

    fn send_update(&mut self, now: Time, slot: Slot, position: u64, offer: Offer) {
        let permit = self.permits.get_mut(slot);
        let id = permit.id.clone();
        let waiting = permit.waiting_mut();
        if waiting.last_estimate.is_none() && waiting.at_key.is_none() {
            waiting.first_estimate = Some(offer.at);
        }
        waiting.last_estimate = Some(offer.at);
        let (to, eta, limited_by) = (waiting.to.clone(), offer.at.since(now), offer.limited_by);
        self.outbox.push(Command::Queued { to, id, position, eta, limited_by });
    }
}
