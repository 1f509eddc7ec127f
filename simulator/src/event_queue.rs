//! Future events in the order of their times; equal times keep the order of insertion.

use rampmeter_protocol::time::Time;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    entries: BTreeMap<(Time, u64), T>,
    noted: u64,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Self {
        EventQueue { entries: BTreeMap::new(), noted: 0 }
    }

    pub(crate) fn note(&mut self, at: Time, what: T) {
        self.noted += 1;
        self.entries.insert((at, self.noted), what);
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        self.entries.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, T)> {
        self.entries.pop_first().map(|((at, _), what)| (at, what))
    }
}
