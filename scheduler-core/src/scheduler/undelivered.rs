//! Clients that are gone: what they were granted goes back, and what they wait for is waited for no more.

use super::Scheduler;
use super::permits::{Permit, State};
use crate::collections::Slot;
use crate::ids::ClassId;
use crate::queue::Waiting;
use crate::refusal::Refusal;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::Time;

/// Places that one step of a [`Walk`] looks at: a fraction of a millisecond.
const LOOKED_AT: usize = 1024;
/// Requests with which one step does something: a fraction of a millisecond, too.
const MET: usize = 64;

/// A walk along all requests that wait, step by step, so that no step delays an answer. Begins with the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk(usize);

/// The requests whose waits are to be ended: those that are of this client, and of this class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The client, as the resource shares between them; any client if there is none.
    pub client: Option<String>,
    /// The class; any class if there is none.
    pub class: Option<ClassId>,
}

impl Selection {
    fn has<R>(&self, waiting: &Waiting<R>) -> bool {
        let client = self.client.as_ref().is_none_or(|client| **client == *waiting.client);
        client && self.class.is_none_or(|class| class == waiting.class)
    }
}

impl<R: Clone> Scheduler<R> {
    /// The last word about `id` has reached no client: its place in line goes to the next, and its permit is given back as if the call was
    /// never made. A client that was only cut off may ask again under the same id.
    pub(crate) fn undelivered(&mut self, now: Time, id: &PermitId) {
        let Some(slot) = self.permits.find(id) else { return };
        match self.permits.get(slot).state {
            State::Waiting(_) => {
                self.drop_waiting(slot);
                self.counters.returned += 1;
            }
            State::Granted(granted) if granted.is_open() => self.give_back_unheard(now, slot, granted),
            State::Granted(_) | State::Returned => {}
        }
    }

    /// One step of a walk that probes the waiting requests whose clients may be gone: each is told how it stands. A request that does not
    /// want to be told may be sent one message only, and is sent away to ask again. Handle [`Event::Wake`](crate::event::Event::Wake) next.
    pub fn probe(&mut self, now: Time, walk: Walk, may_be_gone: impl Fn(&R) -> bool) -> Option<Walk> {
        let (slots, walk) = self.step(walk, |waiting| may_be_gone(&waiting.to));
        for slot in slots {
            match self.permits.get(slot).waiting().progress {
                true => self.tell(now, slot),
                false => self.turn_away(slot, Refusal::Unavailable),
            }
        }
        walk
    }

    /// One step of a walk that ends the waits of `selection`; how many it has ended. Handle [`Event::Wake`](crate::event::Event::Wake) next.
    pub fn purge(&mut self, walk: Walk, selection: &Selection) -> (usize, Option<Walk>) {
        let (slots, walk) = self.step(walk, |waiting| selection.has(waiting));
        let ended = slots.len();
        slots.into_iter().for_each(|slot| self.turn_away(slot, Refusal::Purged));
        (ended, walk)
    }

    /// The waiting requests that the next step of `walk` meets, and where to go on if there are more.
    fn step(&self, Walk(from): Walk, meets: impl Fn(&Waiting<R>) -> bool) -> (Vec<Slot>, Option<Walk>) {
        let mut met = Vec::new();
        for arrival in from..from + LOOKED_AT {
            let Some(slot) = self.permits.nth_place(arrival) else { return (met, None) };
            if self.permits.find_at(slot).and_then(Permit::as_waiting).is_some_and(&meets) {
                met.push(slot);
            }
            if met.len() == MET {
                return (met, Some(Walk(arrival + 1)));
            }
        }
        (met, Some(Walk(from + LOOKED_AT)))
    }
}
