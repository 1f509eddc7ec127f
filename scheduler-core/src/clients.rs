//! Who shares a class, and how much service each has had.

use crate::virtual_time::{VirtualTime, Weight};
use hashbrown::HashMap;
use rampmeter_protocol::time::Span;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The clients of one class: start-time fair queueing (Goyal, Vin and Cheng, 1997).
///
/// A request begins where its client's last one ends, but not before the clock: whoever was idle has no credit saved.
/// The clock is where those who are served now begin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    clock: VirtualTime,
    clients: HashMap<Arc<str>, Client>,
    /// Clients of which nobody waits, kept until the clock has passed what they have had.
    idle: BTreeSet<(VirtualTime, Arc<str>)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    /// Where its next request begins, unless the clock is further.
    end: VirtualTime,
    waiting: usize,
}

/// The part of its client's service that a request stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) begin: VirtualTime,
    pub(crate) end: VirtualTime,
    /// Whether the client has had more than its share until now.
    pub(crate) returning: bool,
}

impl Clients {
    /// The slice of a newcomer that takes `share` of the resource.
    pub(crate) fn join(&mut self, name: &Arc<str>, share: Span, weight: Weight) -> Slice {
        let client = self.clients.entry(Arc::clone(name)).or_default();
        if client.waiting == 0 {
            self.idle.remove(&(client.end, Arc::clone(name)));
        }
        let (returning, begin) = (client.end > self.clock, client.end.max(self.clock));
        let end = begin.after(share, weight);
        client.end = end;
        client.waiting += 1;
        Slice { begin, end, returning }
    }

    /// Notes that a request was served, or left unserved: its slice is then the client's again if it was the last.
    pub(crate) fn leave(&mut self, name: &Arc<str>, slice: Slice, served: bool) {
        let Some(client) = self.clients.get_mut(name) else { return };
        client.waiting -= 1;
        if !served && client.end == slice.end {
            client.end = slice.begin;
        }
        if client.waiting == 0 {
            self.idle.insert((client.end, Arc::clone(name)));
        }
        self.forget_the_even();
    }

    /// Moves the clock, never back.
    pub(crate) fn advance(&mut self, to: VirtualTime) {
        self.clock = self.clock.max(to);
        self.forget_the_even();
    }

    pub(crate) fn clock(&self) -> VirtualTime {
        self.clock
    }

    /// Nobody waits any more: everybody begins anew.
    pub(crate) fn forget_all(&mut self) {
        *self = Clients::default();
    }

    /// Forgets clients that are no better known than strangers.
    fn forget_the_even(&mut self) {
        while self.idle.first().is_some_and(|(end, _)| *end <= self.clock) {
            if let Some((_, name)) = self.idle.pop_first() {
                self.clients.remove(&name);
            }
        }
    }
}
