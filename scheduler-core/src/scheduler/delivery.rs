//! Starts of which no client is known to have heard.
//!
//! A call begins when its answer comes. While answers are held up on their way, buckets refill, and the calls would come on top of
//! what has come in. So a start that may not have been heard of counts as if it were put off until it is.

use super::Scheduler;
use super::permits::{Granted, State};
use crate::collections::Slot;
use crate::limits::StartKey;
use rampmeter_protocol::time::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Starts that are kept until they are known to be delivered: some milliseconds' worth of grants. Beyond it the oldest counts as
/// delivered.
const MOST_TOLD: usize = 65_536;

/// What was told since answers last came through in time. A driver that never says so has none.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    is_watched: bool,
    is_held_up: bool,
    told: VecDeque<Told>,
}

/// A start that was told, or counts as told, at this time.
#[derive(Clone, Copy, Debug)]
struct Told {
    at: Time,
    slot: Slot,
    /// Of the permit that was in the slot then.
    serial: u64,
}

impl Delivery {
    /// Whether answers are held up: nothing is granted to those who wait.
    pub(crate) fn is_held_up(&self) -> bool {
        self.is_held_up
    }

    /// The permit in `slot` is granted.
    pub(crate) fn tell(&mut self, at: Time, slot: Slot, serial: u64) {
        if self.is_watched {
            self.told.push_back(Told { at, slot, serial });
        }
        if self.told.len() > MOST_TOLD {
            self.told.pop_front();
        }
    }
}

impl<R: Clone> Scheduler<R> {
    /// What was told until `until` has come through.
    pub(crate) fn delivered(&mut self, until: Time) {
        let Delivery { is_watched, is_held_up, told } = &mut self.delivery;
        while told.pop_front_if(|told| told.at <= until).is_some() {}
        *is_watched = true;
        if std::mem::take(is_held_up) {
            self.ledger.note_change();
        }
    }

    /// Answers do not come through: what may not have been heard of is put off by the time since it was told.
    pub(crate) fn held_up(&mut self, now: Time) {
        self.delivery.is_held_up = true;
        let mut told = std::mem::take(&mut self.delivery.told);
        for told in &mut told {
            if let Some(granted) = self.unheard(*told) {
                self.put_off(now, told.slot, granted, now.since(told.at));
                told.at = now;
            }
        }
        self.delivery.told = told;
    }

    /// The start, if it is neither settled nor given back.
    fn unheard(&self, told: Told) -> Option<Granted> {
        let granted = self.permits.find_at(told.slot)?.granted()?;
        (granted.key.serial == told.serial && granted.is_open()).then_some(granted)
    }

    /// What begins at once is taken, whatever is left; what is ahead goes where it breaks no other promise.
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
