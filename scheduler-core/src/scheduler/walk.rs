//! Walks along waiting requests, and ends the waits of clients that are gone or purged.
//!
//! A walk along waiting requests is a step of the driver, not an event. It takes a predicate over
//! addresses, which the core never reads, and ends when the driver says so.
//!
//! A dead connection's requests that want one message only are told to ask again. To grant each as
//! a probe would take a round trip for each stock of the limit. A living client asks again at once,
//! with its old age. A connection is an inbox without its last token. Clients with one inbox for
//! each request are found out grant by grant.

use super::Scheduler;
use crate::collections::Slot;
use crate::ids::ClassId;
use crate::permits::{Permit, Permits, State};
use crate::queue::Waiting;
use crate::refusal::Refusal;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::Time;

/// Permits that one step of a [`Walk`] examines: a fraction of a millisecond.
const MAX_WALKED: usize = 1024;
/// Requests that one step probes or ends: a fraction of a millisecond, too.
const MAX_MATCHES: usize = 64;

/// A walk along all waiting requests in short steps. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk(usize);

impl Walk {
    /// The waiting requests that the next step finds, and where to go on if there are more.
    fn step<R>(self, permits: &Permits<R>, matches: impl Fn(&Waiting<R>) -> bool) -> (Vec<Slot>, Option<Walk>) {
        let Walk(from) = self;
        let mut found = Vec::new();
        for place in from..from + MAX_WALKED {
            let Some(slot) = permits.nth_place(place) else { return (found, None) };
            if permits.find_at(slot).and_then(Permit::as_waiting).is_some_and(&matches) {
                found.push(slot);
            }
            if found.len() == MAX_MATCHES {
                return (found, Some(Walk(place + 1)));
            }
        }
        (found, Some(Walk(from + MAX_WALKED)))
    }
}

/// The requests whose waits are to be ended: those of this client and of this class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The client, as the fair share has it; none means any.
    pub client: Option<String>,
    /// The class; none means any.
    pub class: Option<ClassId>,
}

impl Selection {
    fn matches<R>(&self, waiting: &Waiting<R>) -> bool {
        let client = self.client.as_ref().is_none_or(|client| **client == *waiting.client);
        client && self.class.is_none_or(|class| class == waiting.class)
    }
}

impl<R: Clone> Scheduler<R> {
    /// The last answer about `id` has reached no client. A waiting request is dropped, and an open
    /// permit is given back unused. A client that was only cut off may ask again under the same id.
    pub(crate) fn undelivered(&mut self, now: Time, id: &PermitId) {
        let Some(slot) = self.permits.find(id) else { return };
        match self.permits.get(slot).state {
            State::Waiting(_) => {
                self.drop_waiting(slot);
                self.counters.returned += 1;
            }
            State::Granted(granted) if granted.is_open() => self.give_back_untold(now, slot, granted),
            State::Granted(_) | State::Returned => {}
        }
    }

    /// One step of a walk that probes waiting requests whose clients may be gone: each is told how
    /// it stands. A request without updates may be sent one message only, and is refused, to ask
    /// again. Handle [`Event::Wake`](crate::event::Event::Wake) next.
    pub fn probe(&mut self, now: Time, walk: Walk, may_be_gone: impl Fn(&R) -> bool) -> Option<Walk> {
        let (slots, walk) = walk.step(&self.permits, |waiting| may_be_gone(&waiting.to));
        for slot in slots {
            match self.permits.get(slot).waiting().progress {
                true => self.tell(now, slot),
                false => self.turn_away(slot, Refusal::MayBeGone),
            }
        }
        walk
    }

    /// One step of a walk that ends the waits of `selection`. How many it has ended, and where to
    /// go on. Handle [`Event::Wake`](crate::event::Event::Wake) next.
    pub fn purge(&mut self, walk: Walk, selection: &Selection) -> (usize, Option<Walk>) {
        let (slots, walk) = walk.step(&self.permits, |waiting| selection.matches(waiting));
        let ended = slots.len();
        slots.into_iter().for_each(|slot| self.turn_away(slot, Refusal::Purged));
        (ended, walk)
    }
}
