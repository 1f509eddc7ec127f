//! The order in which the requests of one class are served.
//!
//! Requests that need the same limits are in one [balanced tree](crate::collections::Tree), whose
//! subtrees know their count and backlog. A tree returns its first request, and what is ahead of a
//! turn, in O(log n). Trees of blocked limits are skipped as a whole.
//!
//! Among equal tags, a client that is not ahead of its share goes first: equal calls get equal
//! tags, and a light client would otherwise wait for a round of heavy ones. Then the earlier
//! request goes first, so that a rare large request waits for no round of small ones.
//!
//! Each contended limit has a clock of its own. One clock for the class would put newcomers behind
//! every blocked request, or charge later for capacity that no other request wanted. A clock runs
//! only while requests wait, so that newcomers get no credit.

use super::clients::VirtualTime;
use crate::collections::{Link, Node, Slab, Slot, Sums, Tree, in_order};
use crate::ledger::Backlog;
use rampmeter_policy::{Bill, LimitSet, Resource};
use rampmeter_protocol::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// When a request came, less the age that it stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    pub(crate) serial: u64,
}

impl Arrival {
    pub(crate) const FIRST: Arrival = Arrival { at: Time::ORIGIN, serial: 0 };
    pub(crate) const LAST: Arrival = Arrival { at: Time::NEVER, serial: u64::MAX };
}

/// The position of a request in the order of its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    /// The start tag: where the request's slice begins.
    pub(crate) tag: VirtualTime,
    /// Whether its client has had more than its share. At equal tags, other clients go first.
    pub(crate) returning: bool,
    pub(crate) arrival: Arrival,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) turn: Turn,
    pub(crate) slot: Slot,
    pub(crate) bill: Arc<Bill>,
}

/// The limits that requests need: those of every alternative, and those of any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needs {
    pub(crate) all: LimitSet,
    pub(crate) any: LimitSet,
}

impl Needs {
    pub(crate) const NONE: Needs = Needs { all: LimitSet::NONE, any: LimitSet::NONE };
    pub(crate) const ALL: Needs = Needs { all: LimitSet::ALL, any: LimitSet::ALL };

    pub(crate) fn of(bill: &Bill) -> Self {
        let any = bill.charged().fold(LimitSet::NONE, LimitSet::with);
        Needs { all: if bill.alternatives.is_some() { bill.needs() } else { any }, any }
    }
}

/// The most sets of limits with trees of their own. Others share one that counts as needing all.
const MAX_SETS: usize = 63;

/// The requests of one class: a tree for each set of limits that requests need.
/// Invariant: no tree is empty, each root knows the first entry below it, and every node is in a
/// tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairOrder {
    nodes: Slab<Node<Entry, Backlog>>,
    roots: BTreeMap<Needs, Root>,
}

#[derive(Clone, Copy, Debug)]
struct Root {
    slot: Slot,
    first: Slot,
}

impl FairOrder {
    pub(crate) fn tree_for(&self, needs: Needs) -> Needs {
        if self.roots.len() < MAX_SETS || self.roots.contains_key(&needs) { needs } else { Needs::ALL }
    }

    pub(crate) fn insert(&mut self, resource: &Resource, needs: Needs, entry: Entry) {
        let root = self.roots.get(&needs).map(|root| root.slot);
        let root = Tree { nodes: &mut self.nodes, by: resource }.insert(root, entry);
        self.put_root(needs, Some(root));
    }

    /// Removes the request in `slot` with this `turn`; several may have equal turns.
    pub(crate) fn remove(&mut self, resource: &Resource, needs: Needs, turn: Turn, slot: Slot) {
        let root = self.roots.remove(&needs).map(|root| root.slot);
        let (root, found) = Tree { nodes: &mut self.nodes, by: resource }.remove(root, &(turn, slot));
        assert!(found.is_some(), "a request that leaves has a turn");
        self.put_root(needs, root);
    }

    fn put_root(&mut self, needs: Needs, root: Link) {
        let Some(slot) = root else { return };
        let mut first = slot;
        while let Some(left) = self.nodes.get(first).and_then(|node| node.below[0]) {
            first = left;
        }
        self.roots.insert(needs, Root { slot, first });
    }

    pub(crate) fn sets(&self) -> impl Iterator<Item = Needs> {
        self.roots.keys().copied()
    }

    pub(crate) fn first_among(&self, is_meant: impl Fn(Needs) -> bool) -> Option<&Entry> {
        let meant = self.roots.iter().filter(|(needs, _)| is_meant(**needs));
        meant.filter_map(|(_, root)| Some(&self.nodes.get(root.first)?.value)).min_by_key(|entry| entry.turn)
    }

    /// Returns the first request in these trees that is not held.
    pub(crate) fn first_unheld(
        &self,
        is_meant: impl Fn(Needs) -> bool,
        is_held: impl Fn(Slot) -> bool,
    ) -> Option<&Entry> {
        let meant = self.roots.iter().filter(|(needs, _)| is_meant(**needs));
        let first = meant.filter_map(|(_, root)| match &self.nodes.get(root.first)?.value {
            first if is_held(first.slot) => in_order(&self.nodes, Some(root.slot)).find(|entry| !is_held(entry.slot)),
            first => Some(first),
        });
        first.min_by_key(|entry| entry.turn)
    }

    /// Returns how many requests are before `turn`, and what they will take.
    pub(crate) fn ahead_of(&self, resource: &Resource, turn: Turn) -> (usize, Backlog) {
        let (mut count, mut backlog) = (0, Backlog::none(resource));
        for root in self.roots.values() {
            let mut link = Some(root.slot);
            while let Some(node) = self.node(link) {
                if node.value.turn >= turn {
                    link = node.below[0];
                    continue;
                }
                count += 1;
                backlog.add(resource, &node.value.bill);
                if let Some(left) = self.node(node.below[0]) {
                    count += left.count as usize;
                    backlog.add_all(&left.sum);
                }
                link = node.below[1];
            }
        }
        (count, backlog)
    }

    pub(crate) fn backlogs(&self) -> impl Iterator<Item = &Backlog> {
        self.roots.values().filter_map(|root| Some(&self.nodes.get(root.slot)?.sum))
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn front(&self, count: usize) -> impl Iterator<Item = (Slot, &Bill)> {
        let roots = self.roots.values();
        let mut front: Vec<&Entry> =
            roots.flat_map(|root| in_order(&self.nodes, Some(root.slot)).take(count)).collect();
        front.sort_unstable_by_key(|entry| (entry.turn, entry.slot));
        front.into_iter().take(count).map(|entry| (entry.slot, &*entry.bill))
    }

    fn node(&self, link: Link) -> Option<&Node<Entry, Backlog>> {
        self.nodes.get(link?)
    }
}

impl Sums for &Resource {
    type Value = Entry;
    type Sum = Backlog;
    type Key = (Turn, Slot);

    fn key(&self, entry: &Entry) -> (Turn, Slot) {
        (entry.turn, entry.slot)
    }

    fn sum(&self, entry: &Entry, below: [Option<&Backlog>; 2], mut backlog: Backlog) -> Backlog {
        backlog.reset_to(self, &entry.bill);
        below.into_iter().flatten().for_each(|more| backlog.add_all(more));
        backlog
    }
}
