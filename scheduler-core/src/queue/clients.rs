//! Who shares a class, and how much service each has had.

use super::virtual_clock::VirtualClock;
use super::virtual_time::VirtualTime;
use crate::ids::LimitId;
use crate::policy::LimitSet;
use hashbrown::HashMap;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Idle clients that are remembered. Beyond this those who have had least begin anew.
const MOST_IDLE: usize = 100_000;

/// The clients of one class: start-time fair queueing (Goyal, Vin and Cheng, 1997).
///
/// A request begins where its client's last one ends, but not before the clock: whoever was idle has no credit saved.
/// Each limit for which somebody is held has a clock, which shows where those begin who need it and are served now; a request
/// goes by the slowest of its limits. What nobody else waits for is free: it is not counted, and moves no clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    /// The limits that somebody is held for.
    held: LimitSet,
    /// By limit.
    clocks: Vec<VirtualClock>,
    clients: HashMap<Arc<str>, Client>,
    /// Clients of which nobody waits, kept until the clocks have passed what they have had.
    idle: BTreeSet<(VirtualTime, Arc<str>)>,
}

#[derive(Clone, Debug, Default)]
struct Client {
    /// Where its next request begins, unless the clock is further.
    end: VirtualTime,
    waiting: usize,
    /// Slices before its last that were not used: where each ends, and begins.
    unused: BTreeMap<VirtualTime, VirtualTime>,
}

/// The part of its client's service that a request stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) begin: VirtualTime,
    pub(crate) end: VirtualTime,
    /// Whether the client has had more than its share until now.
    pub(crate) returning: bool,
}

impl Clients {
    pub(crate) fn new(limits: usize, now: Time) -> Self {
        Clients { clocks: vec![VirtualClock::new(now); limits], ..Clients::default() }
    }

    /// The slice of a request that needs the limits of `set`, for so much `service`. Requests that need none but the same limits have
    /// turns from `first` on.
    pub(crate) fn join(&mut self, name: &Arc<str>, set: LimitSet, first: Option<VirtualTime>, service: Span) -> Slice {
        let clock = self.clock_for(set).min(first.unwrap_or(VirtualTime::MAX));
        let client = self.clients.entry(Arc::clone(name)).or_default();
        if client.waiting == 0 {
            self.idle.remove(&(client.end, Arc::clone(name)));
        }
        let (returning, begin) = (client.end > clock, client.end.max(clock));
        client.end = begin.after(service);
        client.waiting += 1;
        Slice { begin, end: client.end, returning }
    }

    /// Notes that a request was served in its turn, which began at `tag`. What nobody is held for does not count.
    pub(crate) fn serve(&mut self, now: Time, name: &Arc<str>, set: LimitSet, slice: Slice, tag: VirtualTime) {
        let contended = set.and(self.held);
        contended.limits().for_each(|limit| self.clocks[limit.index()].advance(now, tag));
        self.leave(name, slice, contended != LimitSet::default());
    }

    /// Says which limits somebody is held for now. Where nobody was before, the clock goes on with the fastest: all are even.
    pub(crate) fn hold(&mut self, now: Time, held: LimitSet) {
        let fastest = self.fastest();
        held.without(self.held).limits().for_each(|limit| self.clocks[limit.index()].restart(now, fastest));
        self.held = held;
    }

    pub(crate) fn held(&self) -> LimitSet {
        self.held
    }

    pub(crate) fn clock(&self, limit: LimitId) -> &VirtualClock {
        &self.clocks[limit.index()]
    }

    /// Nobody waits any more: everybody begins anew.
    pub(crate) fn forget_all(&mut self) {
        self.clocks.iter_mut().for_each(|clock| clock.shows = VirtualTime::default());
        *self = Clients { clocks: std::mem::take(&mut self.clocks), ..Clients::default() };
    }

    /// The slowest clock of what somebody is held for. Where nobody is, the fastest of all.
    fn clock_for(&self, set: LimitSet) -> VirtualTime {
        let contended = set.and(self.held).limits().map(|limit| self.clock(limit).shows).min();
        contended.unwrap_or_else(|| self.fastest())
    }

    fn fastest(&self) -> VirtualTime {
        self.clocks.iter().map(|clock| clock.shows).max().unwrap_or_default()
    }

    /// A request waits no more: if it `counts` as served, its slice is used, or else its client's again once there is none behind it.
    pub(crate) fn leave(&mut self, name: &Arc<str>, slice: Slice, counts: bool) {
        let Some(client) = self.clients.get_mut(name) else { return };
        client.waiting -= 1;
        if counts {
            client.unused = client.unused.split_off(&slice.end);
        } else {
            client.unused.insert(slice.end, slice.begin);
        }
        while let Some(begin) = client.unused.remove(&client.end) {
            client.end = begin;
        }
        if client.waiting == 0 {
            client.unused.clear();
            self.idle.insert((client.end, Arc::clone(name)));
        }
        self.forget_the_even();
    }

    /// Forgets clients that are no better known than strangers.
    fn forget_the_even(&mut self) {
        let slowest = self.held.limits().map(|limit| self.clock(limit).shows).min().unwrap_or_default();
        while self.idle.first().is_some_and(|(end, _)| *end <= slowest || self.idle.len() > MOST_IDLE) {
            if let Some((_, name)) = self.idle.pop_first() {
                self.clients.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_those_who_have_had_least_begin_anew() {
        let mut clients = Clients::new(1, Time::ORIGIN);
        let set = LimitSet::default().with(LimitId(0));
        clients.hold(Time::ORIGIN, set);
        for number in 0..=MOST_IDLE as u64 {
            let name = Arc::from(number.to_string());
            let slice = clients.join(&name, set, None, Span::from_nanos(number + 1));
            clients.serve(Time::ORIGIN, &name, set, slice, slice.begin);
        }
        assert_eq!((clients.idle.len(), clients.clients.len()), (MOST_IDLE, MOST_IDLE));
        assert!(!clients.clients.contains_key("0") && clients.clients.contains_key("1"));
    }
}
