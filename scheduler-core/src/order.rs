//! The order in which those who wait in one class are served.
//!
//! A balanced tree (a treap; Aragon and Seidel, 1989) whose subtrees know how many wait in them, what those will take,
//! and which limits they need: who is first, who is first among those that a blocked limit does not hold, and what is
//! ahead of somebody are questions of O(log n).

use crate::bill::Bill;
use crate::ledger::Backlog;
use crate::limit_set::Kinds;
use crate::line::Place;
use crate::resource::Resource;
use crate::scatter::scatter;
use crate::slab::{Slab, Slot};
use crate::virtual_time::VirtualTime;
use std::sync::Arc;

/// When somebody is served, beside the others of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    /// Its start tag.
    pub(crate) tag: VirtualTime,
    /// Whether its client has had more than the others lately. Of equal tags those come first who have not.
    pub(crate) returning: bool,
    /// First come, first served among the rest.
    pub(crate) place: Place,
}

/// One who waits.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) turn: Turn,
    pub(crate) slot: Slot,
    pub(crate) bill: Arc<Bill>,
    /// Which limits its bill charges.
    pub(crate) kind: Kinds,
}

type Link = Option<Slot>;

#[derive(Clone, Debug)]
struct Node {
    entry: Entry,
    left: Link,
    right: Link,
    priority: u64,
    /// Of the whole subtree.
    count: u32,
    kinds: Kinds,
    backlog: Backlog,
}

/// Everybody in one class.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    nodes: Slab<Node>,
    root: Link,
}

/// Those ahead of somebody.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    pub(crate) count: usize,
    pub(crate) backlog: Backlog,
}

impl Order {
    pub(crate) fn new() -> Self {
        Order { nodes: Slab::default(), root: None }
    }

    pub(crate) fn insert(&mut self, resource: &Resource, entry: Entry) {
        let turn = entry.turn;
        let node = self.plant(resource, entry);
        let (before, after) = self.split(resource, self.root, turn);
        let before = self.merge(resource, before, Some(node));
        self.root = self.merge(resource, before, after);
    }

    /// Takes out whoever has `turn`.
    pub(crate) fn remove(&mut self, resource: &Resource, turn: Turn) {
        let (before, rest) = self.split(resource, self.root, turn);
        let (found, after) = self.split_first(resource, rest);
        let found = found.and_then(|found| self.nodes.remove(found));
        assert!(found.is_some_and(|node| node.entry.turn == turn), "who leaves has a turn");
        self.root = self.merge(resource, before, after);
    }

    /// The first of these kinds.
    pub(crate) fn first_among(&self, kinds: Kinds) -> Option<&Entry> {
        let mut node = self.node(self.root).filter(|node| node.kinds.meets(kinds))?;
        loop {
            if let Some(left) = self.node(node.left).filter(|left| left.kinds.meets(kinds)) {
                node = left;
            } else if node.entry.kind.meets(kinds) {
                return Some(&node.entry);
            } else {
                node = self.node(node.right)?;
            }
        }
    }

    /// Who is served before `turn`.
    pub(crate) fn ahead_of(&self, resource: &Resource, turn: Turn) -> Ahead {
        let mut ahead = Ahead { count: 0, backlog: Backlog::none(resource) };
        let mut link = self.root;
        while let Some(node) = self.node(link) {
            if node.entry.turn < turn {
                ahead.count += 1 + self.count(node.left);
                ahead.backlog.add(resource, &node.entry.bill);
                if let Some(left) = self.node(node.left) {
                    ahead.backlog.add_all(&left.backlog);
                }
                link = node.right;
            } else {
                link = node.left;
            }
        }
        ahead
    }

    /// What all will take; nothing where nobody waits.
    pub(crate) fn backlog(&self) -> Option<&Backlog> {
        self.node(self.root).map(|node| &node.backlog)
    }

    /// Everybody, the first first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let mut path = Vec::new();
        self.descend(self.root, &mut path);
        std::iter::from_fn(move || {
            let node = self.nodes.get(path.pop()?)?;
            self.descend(node.right, &mut path);
            Some(&node.entry)
        })
    }

    fn descend(&self, mut link: Link, path: &mut Vec<Slot>) {
        while let (Some(slot), Some(node)) = (link, self.node(link)) {
            path.push(slot);
            link = node.left;
        }
    }

    /// Everybody before `turn`, and the rest.
    fn split(&mut self, resource: &Resource, link: Link, turn: Turn) -> (Link, Link) {
        let Some(slot) = link else { return (None, None) };
        let &Node { entry: Entry { turn: own, .. }, left, right, .. } = self.known(slot);
        if own < turn {
            let (middle, after) = self.split(resource, right, turn);
            self.link(resource, slot, left, middle);
            (link, after)
        } else {
            let (before, middle) = self.split(resource, left, turn);
            self.link(resource, slot, middle, right);
            (before, link)
        }
    }

    /// The first alone, and the rest.
    fn split_first(&mut self, resource: &Resource, link: Link) -> (Link, Link) {
        let Some(slot) = link else { return (None, None) };
        let &Node { left, right, .. } = self.known(slot);
        if left.is_none() {
            return (link, right);
        }
        let (first, rest) = self.split_first(resource, left);
        self.link(resource, slot, rest, right);
        (first, link)
    }

    /// One tree of two, all of the first before all of the second.
    fn merge(&mut self, resource: &Resource, first: Link, second: Link) -> Link {
        let (Some(one), Some(other)) = (first, second) else { return first.or(second) };
        let (a, b) = (self.known(one), self.known(other));
        if a.priority >= b.priority {
            let (left, right) = (a.left, a.right);
            let right = self.merge(resource, right, second);
            self.link(resource, one, left, right);
            first
        } else {
            let (left, right) = (b.left, b.right);
            let left = self.merge(resource, first, left);
            self.link(resource, other, left, right);
            second
        }
    }

    /// Puts subtrees below a node, and sums up.
    fn link(&mut self, resource: &Resource, slot: Slot, left: Link, right: Link) {
        let node = self.nodes.get_mut(slot).expect("a slot in use");
        let mut backlog = std::mem::take(&mut node.backlog);
        backlog.reset_to(resource, &node.entry.bill);
        let (mut count, mut kinds) = (1, node.entry.kind);
        for child in [left, right].into_iter().filter_map(|child| self.node(child)) {
            count += child.count;
            kinds = kinds.and_also(child.kinds);
            backlog.add_all(&child.backlog);
        }
        let node = self.nodes.get_mut(slot).expect("a slot in use");
        (node.left, node.right) = (left, right);
        (node.count, node.kinds, node.backlog) = (count, kinds, backlog);
    }

    fn plant(&mut self, resource: &Resource, entry: Entry) -> Slot {
        let (priority, kinds) = (scatter(entry.turn.place.serial), entry.kind);
        let backlog = Backlog::none(resource);
        let slot = self.nodes.insert(Node { entry, left: None, right: None, priority, count: 1, kinds, backlog });
        self.link(resource, slot, None, None);
        slot
    }

    fn known(&self, slot: Slot) -> &Node {
        self.nodes.get(slot).expect("a slot in use")
    }

    fn node(&self, link: Link) -> Option<&Node> {
        self.nodes.get(link?)
    }

    fn count(&self, link: Link) -> usize {
        self.node(link).map_or(0, |node| node.count as usize)
    }
}
