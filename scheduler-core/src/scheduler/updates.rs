//! Telling waiting requests where they stand.

use super::Scheduler;
use crate::collections::Slot;
use crate::command::Command;
use crate::ledger::Offer;
use crate::queue::is_worth_telling;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// Tells some of those who wait how they stand, in the order of arrival: everybody when it is time, and whom a changed plan
    /// concerns between.
    pub(crate) fn send_updates(&mut self, now: Time) {
        let (everybody, slice) = self.queues.updates.next_slice(now);
        for slot in slice {
            let (position, offer) = self.outlook(now, slot);
            if everybody || is_worth_telling(now, self.permits.get(slot).waiting().told, offer.at) {
                self.tell_offer(now, slot, position, offer);
            }
        }
    }

    /// Tells one who waits how it stands, if it wants to know.
    pub(crate) fn tell(&mut self, now: Time, slot: Slot) {
        if self.permits.get(slot).waiting().progress {
            let (position, offer) = self.outlook(now, slot);
            self.tell_offer(now, slot, position, offer);
        }
    }

    fn tell_offer(&mut self, now: Time, slot: Slot, position: u64, offer: Offer) {
        let permit = self.permits.get_mut(slot);
        let id = permit.id.clone();
        let waiting = permit.waiting_mut();
        waiting.told = Some(offer.at);
        let (to, eta, limited_by) = (waiting.to.clone(), offer.at.since(now), offer.limited_by);
        self.push(Command::Queued { to, id, position, eta, limited_by });
    }
}
