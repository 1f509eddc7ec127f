//! Granted starts whose answers may not have arrived yet.
//!
//! A call begins when its answer arrives. If answers are delayed, buckets refill meanwhile, and
//! the calls would come on top of the refill. So each start whose answer may not have arrived is
//! put off by the delay.

use super::Scheduler;
use crate::collections::Slot;
use crate::limits::StartKey;
use crate::permits::{Granted, State, ToldStart};
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

impl<R: Clone> Scheduler<R> {
    /// Answers that were sent until `until` have arrived.
    pub(crate) fn delivered(&mut self, until: Time) {
        if self.told.note_delivered(until) {
            self.ledger.note_change();
        }
    }

    /// Answers do not arrive: puts each undelivered start off by the time since it was told.
    pub(crate) fn answers_late(&mut self, now: Time) {
        for start in self.told.take_late() {
            let open = self.open_start(start);
            if let Some(granted) = open {
                self.put_off(now, start.slot, granted, now.since(start.at));
            }
            self.told.note_told(ToldStart { at: if open.is_some() { now } else { start.at }, ..start });
        }
    }

    /// The start, unless it is settled or given back.
    fn open_start(&self, told: ToldStart) -> Option<Granted> {
        let granted = self.permits.find_at(told.slot)?.granted()?;
        (granted.start.serial == told.serial && granted.is_open()).then_some(granted)
    }

    /// A start that is due now is charged now, whatever its buckets hold. A later one moves to
    /// where it breaks no other promise.
    fn put_off(&mut self, now: Time, slot: Slot, granted: Granted, by: Span) {
        let (bill, tier) = (Arc::clone(&self.permits.get(slot).bill), self.resource.tier(granted.class));
        self.discharge(now, granted.start, &bill);
        let at = granted.start.at + by;
        let at = if at <= now { now } else { self.ledger.earliest(at, &bill, tier).at };
        let key = StartKey { at, ..granted.start };
        self.ledger.commit(now, key, &bill, tier);
        self.calls.withdraw(granted.start);
        self.calls.begin(now, key);
        self.permits.get_mut(slot).state = State::Granted(granted.moved_to(key));
    }
}
