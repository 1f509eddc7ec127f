//! Ends waits by an operator's order.

use super::Scheduler;
use super::undelivered::Walk;
use crate::ids::ClassId;
use crate::queue::Waiting;
use crate::refusal::Refusal;

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
    /// One step of a walk that ends the waits of `selection`. How many it has ended, and where to
    /// go on. Handle [`Event::Wake`](crate::event::Event::Wake) next.
    pub fn purge(&mut self, walk: Walk, selection: &Selection) -> (usize, Option<Walk>) {
        let (slots, walk) = self.step(walk, |waiting| selection.matches(waiting));
        let ended = slots.len();
        slots.into_iter().for_each(|slot| self.turn_away(slot, Refusal::Purged));
        (ended, walk)
    }
}
