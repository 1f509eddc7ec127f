//! Future events, in order.

use rampmeter_protocol::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Entries in the order of their times; entries of equal times keep the order of their insertion.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    entries: BinaryHeap<Reverse<Entry<T>>>,
    noted: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Time,
    number: u64,
    what: T,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Self {
        EventQueue { entries: BinaryHeap::new(), noted: 0 }
    }

    pub(crate) fn note(&mut self, at: Time, what: T) {
        self.noted += 1;
        self.entries.push(Reverse(Entry { at, number: self.noted, what }));
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        self.entries.peek().map(|Reverse(entry)| entry.at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, T)> {
        self.entries.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}

impl<T> Entry<T> {
    fn order(&self) -> (Time, u64) {
        (self.at, self.number)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}
