//! The clients that share a class, and how much service each has had: the virtual time of
//! start-time fair queueing (Goyal, Vin and Cheng, 1997), and its clocks.

use hashbrown::HashMap;
use rampmeter_policy::LimitSet;
use rampmeter_policy::ids::LimitId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// The most idle clients that are remembered; those with the least service are forgotten first.
const MAX_IDLE: usize = 100_000;
/// The most idle clients forgotten when a request leaves: more than can become idle then.
const FORGOTTEN_AT_ONCE: usize = 4;

/// The clients of one class.
///
/// A request's slice begins where its client's last slice ends, but not before the clock: an idle
/// client saves no credit. Each contended limit, for which a request is held back, has a clock that
/// shows the beginnings of the slices served now; a request goes by the slowest of its limits'
/// clocks. Service without a contended limit is free: it is not counted, and moves no clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    pub(super) contended: LimitSet,
    clocks: Vec<VirtualClock>,
    /// How often all clients have begun again. A client of a former generation is like a new one.
    generation: u64,
    pub(super) clients: HashMap<Arc<str>, Client>,
    /// Clients without waiting requests, by generation, until the clocks have passed their service.
    idle: BTreeSet<(u64, VirtualTime, Arc<str>)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    /// Where its next slice begins, unless the clock shows a later time.
    end: VirtualTime,
    waiting: u32,
    generation: u64,
    /// Unused slices before its last one, the beginning of each by its end. The slice of a waiting
    /// request lies between any two, which bounds their number.
    unused: BTreeMap<VirtualTime, VirtualTime>,
}

impl Client {
    /// Takes back a slice that was not used. Adjacent slices become one.
    fn take_back(&mut self, slice: Slice) {
        let begin = self.unused.remove(&slice.begin).unwrap_or(slice.begin);
        match self.unused.range_mut((Excluded(slice.end), Unbounded)).next() {
            Some((_, next)) if *next == slice.end => *next = begin,
            Some(_) | None => drop(self.unused.insert(slice.end, begin)),
        }
        while let Some(begin) = self.unused.remove(&self.end) {
            self.end = begin;
        }
    }

    /// Begins a slice for this much service. A client behind the clock loses its unused slices.
    fn next_slice(&mut self, clock: VirtualTime, service: Span) -> Slice {
        if self.end < clock {
            self.unused.clear();
        }
        let (returning, begin) = (self.end > clock, self.end.max(clock));
        self.end = begin.after(service);
        self.waiting += 1;
        Slice { begin, end: self.end, returning }
    }
}

/// The part of its client's service that a request stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) begin: VirtualTime,
    pub(crate) end: VirtualTime,
    /// Whether the client had had more than its share when the request came.
    pub(crate) returning: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceOutcome {
    Used,
    Unused,
}

impl Clients {
    pub(crate) fn new(limits: usize, now: Time) -> Self {
        Clients { clocks: vec![VirtualClock::new(now); limits], ..Clients::default() }
    }

    /// Begins the slice of a new request for this much `service` of the limits of `set`. `first` is
    /// the earliest tag among requests that need no other limits.
    pub(crate) fn join(&mut self, name: &Arc<str>, set: LimitSet, first: Option<VirtualTime>, service: Span) -> Slice {
        let clock = self.clock_for(set).min(first.unwrap_or(VirtualTime::MAX));
        let client = self.clients.entry(Arc::clone(name)).or_default();
        if client.waiting == 0 {
            self.idle.remove(&(client.generation, client.end, Arc::clone(name)));
        }
        if client.generation != self.generation {
            *client = Client { generation: self.generation, ..Client::default() };
        }
        client.next_slice(clock, service)
    }

    pub(crate) fn serve(&mut self, now: Time, name: &Arc<str>, set: LimitSet, slice: Slice, tag: VirtualTime) {
        let contended = set.and(self.contended);
        contended.limits().for_each(|limit| self.clocks[limit.index()].advance(now, tag));
        let fate = if contended == LimitSet::NONE { SliceOutcome::Unused } else { SliceOutcome::Used };
        self.leave(name, slice, fate);
    }

    /// Sets the limits for which requests are held back. The clock of a newly contended limit
    /// starts at the time of the fastest clock, as no client is ahead in it yet.
    pub(crate) fn set_contended(&mut self, now: Time, contended: LimitSet) {
        let (fastest, goes_on) = (self.fastest(), self.contended != LimitSet::NONE);
        for limit in contended.without(self.contended).limits() {
            let clock = &mut self.clocks[limit.index()];
            if goes_on { clock.catch_up(fastest) } else { clock.restart(now, fastest) }
        }
        self.contended = contended;
    }

    pub(crate) fn clock(&self, limit: LimitId) -> &VirtualClock {
        &self.clocks[limit.index()]
    }

    pub(crate) fn forget_all(&mut self) {
        self.clocks.iter_mut().for_each(|clock| clock.time = VirtualTime::default());
        self.contended = LimitSet::NONE;
        self.generation += 1;
    }

    /// Returns the slowest clock of the contended limits; without any, the fastest clock of all.
    fn clock_for(&self, set: LimitSet) -> VirtualTime {
        let contended = set.and(self.contended).limits().map(|limit| self.clock(limit).time).min();
        contended.unwrap_or_else(|| self.fastest())
    }

    fn fastest(&self) -> VirtualTime {
        self.clocks.iter().map(|clock| clock.time).max().unwrap_or_default()
    }

    /// Removes a request. The client gets an unused slice back once it is the client's last one.
    pub(crate) fn leave(&mut self, name: &Arc<str>, slice: Slice, fate: SliceOutcome) {
        let client = self.clients.get_mut(name).expect("a client whose request leaves is known");
        client.waiting = client.waiting.checked_sub(1).expect("a client whose request leaves has waited");
        match fate {
            SliceOutcome::Used => client.unused = client.unused.split_off(&slice.end),
            SliceOutcome::Unused => client.take_back(slice),
        }
        if client.waiting == 0 {
            client.unused.clear();
            self.idle.insert((client.generation, client.end, Arc::clone(name)));
        }
        self.forget_idle();
    }

    /// Forgets idle clients of former generations, and those that all clocks have passed.
    fn forget_idle(&mut self) {
        let slowest = self.contended.limits().map(|limit| self.clock(limit).time).min().unwrap_or_default();
        for _ in 0..FORGOTTEN_AT_ONCE {
            let Some((generation, end, _)) = self.idle.first() else { return };
            if *generation == self.generation && *end > slowest && self.idle.len() <= MAX_IDLE {
                return;
            }
            if let Some((.., name)) = self.idle.pop_first() {
                self.clients.remove(&name);
            }
        }
    }
}

/// The time over which the pace is averaged: long enough for a round of many clients, short enough
/// to follow the load.
const WINDOW: Span = Span::from_secs(120);

/// The service that a client has had, in nanoseconds of the resource at a weight of one. It begins
/// again whenever the queue is empty. If that does not happen for centuries, it saturates, and only
/// the order of arrival decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VirtualTime(u64);

impl VirtualTime {
    pub(crate) const MAX: VirtualTime = VirtualTime(u64::MAX);

    pub(crate) fn since(self, earlier: VirtualTime) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }

    #[must_use]
    pub(crate) fn after(self, service: Span) -> Self {
        VirtualTime(self.0.saturating_add(service.nanos()))
    }
}

/// Shows the virtual time at which the slices of currently served requests begin. Its pace is the
/// real time per virtual time, as an exponentially weighted average, so it includes later requests
/// that still go first, and requests of other classes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VirtualClock {
    pub(crate) time: VirtualTime,
    /// When the pace was last measured, and what the clock showed.
    measured: (Time, VirtualTime),
    /// Nanoseconds per virtual nanosecond; none before the first measurement.
    pace: Option<f64>,
}

impl VirtualClock {
    pub(crate) fn new(now: Time) -> Self {
        VirtualClock { time: VirtualTime::default(), measured: (now, VirtualTime::default()), pace: None }
    }

    /// Notes that a request whose slice begins at `tag` is served at `now`.
    pub(crate) fn advance(&mut self, now: Time, tag: VirtualTime) {
        self.time = self.time.max(tag);
        let (at, then) = self.measured;
        let passed = now.since(at).secs();
        if self.time == then || passed < WINDOW.secs() / 30.0 {
            return;
        }
        let latest = passed / self.time.since(then).secs();
        let weight = passed / (passed + WINDOW.secs());
        self.pace = Some(self.pace.map_or(latest, |pace| pace + (latest - pace) * weight));
        self.measured = (now, self.time);
    }

    /// Sets the clock. The time until now, while no request was held, does not count in the pace.
    pub(crate) fn restart(&mut self, now: Time, time: VirtualTime) {
        (self.time, self.measured) = (time, (now, time));
    }

    /// Sets the clock. The time until now, with requests held for other limits, counts in the pace.
    pub(crate) fn catch_up(&mut self, time: VirtualTime) {
        self.time = time;
    }

    pub(crate) fn time_for(&self, distance: Span) -> Span {
        Span::from_nanos((distance.nanos() as f64 * self.pace.unwrap_or_default()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One request waits, while other requests of its client leave unserved, in any order.
    #[test]
    fn unused_slices_are_not_many_more_than_waiting_requests() {
        let mut clients = Clients::new(1, Time::ORIGIN);
        let (set, name) = (LimitSet::NONE.with(LimitId(0)), Arc::from("busy"));
        clients.set_contended(Time::ORIGIN, set);
        let join = |clients: &mut Clients| clients.join(&name, set, None, Span::from_nanos(10));
        let last = {
            let slices: Vec<Slice> = (0..100).map(|_| join(&mut clients)).collect();
            let last = join(&mut clients);
            let odd_first = (1..100).step_by(2).chain((0..100).step_by(2));
            odd_first.for_each(|index| clients.leave(&name, slices[index], SliceOutcome::Unused));
            last
        };
        assert_eq!(clients.clients[&name].unused.len(), 1, "all slices before the last one");
        for _ in 0..100 {
            let next = join(&mut clients);
            clients.leave(&name, next, SliceOutcome::Unused);
        }
        assert_eq!(clients.clients[&name].unused.len(), 1);
        clients.leave(&name, last, SliceOutcome::Unused);
        let next = join(&mut clients);
        assert_eq!(next.begin, VirtualTime::default(), "the client has everything back");
    }

    #[test]
    fn beyond_the_bound_clients_with_the_least_service_begin_anew() {
        let mut clients = Clients::new(1, Time::ORIGIN);
        let set = LimitSet::NONE.with(LimitId(0));
        clients.set_contended(Time::ORIGIN, set);
        for number in 0..=MAX_IDLE as u64 {
            let name = Arc::from(number.to_string());
            let slice = clients.join(&name, set, None, Span::from_nanos(number + 1));
            clients.serve(Time::ORIGIN, &name, set, slice, slice.begin);
        }
        assert_eq!((clients.idle.len(), clients.clients.len()), (MAX_IDLE, MAX_IDLE));
        assert!(!clients.clients.contains_key("0") && clients.clients.contains_key("1"));
    }
}
