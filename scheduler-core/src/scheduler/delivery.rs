//! Granted starts whose answers may not have arrived yet.
//!
//! A call begins when its answer arrives. If answers are delayed, buckets refill meanwhile, and
//! the calls would come on top of the refill. So each start whose answer may not have arrived is
//! put off by the delay.

use super::Scheduler;
use super::permits::{Granted, State};
use crate::collections::Slot;
use crate::limits::StartKey;
use rampmeter_protocol::time::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Told starts that are kept: the grants of some milliseconds. The oldest beyond it counts as
/// delivered.
const MAX_TOLD: usize = 65_536;

/// Starts that were told since answers were last known to arrive in time. They are kept only if
/// the driver reports deliveries.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    is_watched: bool,
    is_held_up: bool,
    told: VecDeque<ToldStart>,
}

/// A start that was told, or counts as told, at this time.
#[derive(Clone, Copy, Debug)]
struct ToldStart {
    at: Time,
    slot: Slot,
    /// Tells the start from a later permit's in the same slot.
    serial: u64,
}

impl Delivery {
    /// Whether answers are held up, so that waiting requests are granted nothing.
    pub(crate) fn is_held_up(&self) -> bool {
        self.is_held_up
    }

    pub(crate) fn note_told(&mut self, at: Time, slot: Slot, serial: u64) {
        if self.is_watched {
            self.told.push_back(ToldStart { at, slot, serial });
        }
        if self.told.len() > MAX_TOLD {
            self.told.pop_front();
        }
    }
}

impl<R: Clone> Scheduler<R> {
    /// Whether waiting requests are granted nothing, as answers do not arrive.
    pub(crate) fn is_held_up(&self) -> bool {
        self.delivery.is_held_up
    }

    /// Answers that were sent until `until` have arrived.
    pub(crate) fn delivered(&mut self, until: Time) {
        let Delivery { is_watched, is_held_up, told } = &mut self.delivery;
        while told.pop_front_if(|told| told.at <= until).is_some() {}
        *is_watched = true;
        if std::mem::take(is_held_up) {
            self.ledger.note_change();
        }
    }

    /// Answers do not arrive: puts each undelivered start off by the time since it was told.
    pub(crate) fn held_up(&mut self, now: Time) {
        self.delivery.is_held_up = true;
        let mut told = std::mem::take(&mut self.delivery.told);
        for told in &mut told {
            if let Some(granted) = self.open_start(*told) {
                self.put_off(now, told.slot, granted, now.since(told.at));
                told.at = now;
            }
        }
        self.delivery.told = told;
    }

    /// The start, unless it is settled or given back.
    fn open_start(&self, told: ToldStart) -> Option<Granted> {
        let granted = self.permits.find_at(told.slot)?.granted()?;
        (granted.key.serial == told.serial && granted.is_open()).then_some(granted)
    }

    /// A start that is due now is charged now, whatever its buckets hold. A later one moves to
    /// where it breaks no other promise.
    fn put_off(&mut self, now: Time, slot: Slot, granted: Granted, by: Span) {
        let (bill, tier) = (Arc::clone(&self.permits.get(slot).bill), self.tier(granted.class));
        self.discharge(now, granted.key, &bill);
        let at = granted.key.at + by;
        let at = if at <= now { now } else { self.ledger.earliest(at, &bill, tier).at };
        let key = StartKey { at, ..granted.key };
        self.ledger.commit(now, key, &bill, tier);
        self.permits.get_mut(slot).state = State::Granted(Granted { key, ..granted });
    }
}
