//! Who shares a class, and how much service each has had.

use crate::resource::LimitId;
use crate::shape::Shape;
use crate::virtual_time::{VirtualTime, Weight};
use hashbrown::HashMap;
use rampmeter_protocol::time::Span;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The clients of one class: start-time fair queueing (Goyal, Vin and Cheng, 1997).
///
/// A request begins where its client's last one ends, but not before the clock: whoever was idle has no credit saved.
/// Each limit has a clock, which shows where those begin who need it and are served now; a request goes by the slowest
/// of its limits. Whoever flows past others that wait for another limit takes no time from them, and owes nothing to those
/// who never waited for what it had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    /// By limit.
    clocks: Vec<Clock>,
    clients: HashMap<Arc<str>, Client>,
    /// Clients of which nobody waits, kept until the clocks have passed what they have had.
    idle: BTreeSet<(VirtualTime, Arc<str>)>,
}

/// The clock of one limit.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    time: VirtualTime,
    /// How many wait that need the limit.
    waiting: usize,
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

/// A request that is to have a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer {
    /// What it needs.
    pub(crate) shape: Shape,
    /// The first turn of those who wait for none but the same limits.
    pub(crate) first: Option<VirtualTime>,
    /// How long it takes up the limit that it burdens most.
    pub(crate) share: Span,
    /// Of its client.
    pub(crate) weight: Weight,
}

impl Clock {
    fn end_if_idle(&mut self, end: VirtualTime) {
        if self.waiting == 0 {
            self.time = self.time.max(end);
        }
    }
}

impl Clients {
    /// The slice of a newcomer.
    pub(crate) fn join(&mut self, name: &Arc<str>, newcomer: Newcomer) -> Slice {
        let Newcomer { shape, first, share, weight } = newcomer;
        let clocks = shape.limits().map(|limit| self.clock(limit));
        let clock = clocks.chain(first).min().unwrap_or_default();
        shape.limits().for_each(|limit| self.clock_mut(limit).waiting += 1);
        let client = self.clients.entry(Arc::clone(name)).or_default();
        if client.waiting == 0 {
            self.idle.remove(&(client.end, Arc::clone(name)));
        }
        let (returning, begin) = (client.end > clock, client.end.max(clock));
        let end = begin.after(share, weight);
        client.end = end;
        client.waiting += 1;
        Slice { begin, end, returning }
    }

    /// Notes that a request was served. Where its client has nothing else waiting, the clocks of the limits for which nobody
    /// waits any more go as far as it does: who comes next finds everybody even.
    pub(crate) fn serve(&mut self, name: &Arc<str>, shape: Shape, slice: Slice) {
        self.leave(name, shape, slice, true);
        if self.clients.get(name).is_some_and(|client| client.waiting > 0) {
            return;
        }
        for limit in shape.limits() {
            self.clock_mut(limit).end_if_idle(slice.end);
        }
    }

    /// Notes that a request was not served: its slice is its client's again if it was the last.
    pub(crate) fn give_up(&mut self, name: &Arc<str>, shape: Shape, slice: Slice) {
        self.leave(name, shape, slice, false);
    }

    fn leave(&mut self, name: &Arc<str>, shape: Shape, slice: Slice, served: bool) {
        shape.limits().for_each(|limit| self.clock_mut(limit).waiting -= 1);
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

    /// Moves the clocks of these limits, never back.
    pub(crate) fn advance(&mut self, shape: Shape, to: VirtualTime) {
        for limit in shape.limits() {
            let clock = self.clock_mut(limit);
            clock.time = clock.time.max(to);
        }
        self.forget_the_even();
    }

    pub(crate) fn clock(&self, limit: LimitId) -> VirtualTime {
        self.clocks.get(limit.index()).map_or(VirtualTime::default(), |clock| clock.time)
    }

    /// Whether anybody waits that needs this limit.
    pub(crate) fn is_contended(&self, limit: LimitId) -> bool {
        self.clocks.get(limit.index()).is_some_and(|clock| clock.waiting > 0)
    }

    fn clock_mut(&mut self, limit: LimitId) -> &mut Clock {
        let index = limit.index();
        if index >= self.clocks.len() {
            self.clocks.resize(index + 1, Clock::default());
        }
        &mut self.clocks[index]
    }

    /// Nobody waits any more: everybody begins anew.
    pub(crate) fn forget_all(&mut self) {
        *self = Clients::default();
    }

    /// Forgets clients that are no better known than strangers.
    fn forget_the_even(&mut self) {
        let contended = self.clocks.iter().filter(|clock| clock.waiting > 0);
        let Some(slowest) = contended.map(|clock| clock.time).min() else { return };
        while self.idle.first().is_some_and(|(end, _)| *end <= slowest) {
            if let Some((_, name)) = self.idle.pop_first() {
                self.clients.remove(&name);
            }
        }
    }
}
