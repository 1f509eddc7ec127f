//! The order in which those who wait in one class are served.
//!
//! A [balanced tree](crate::treap) whose subtrees know how many wait in them, what those will take,
//! and which limits they need: who is first, who is first among those that a blocked limit does not hold, and what is
//! ahead of somebody are questions of O(log n).

use crate::bill::Bill;
use crate::ledger::Backlog;
use crate::limit_set::Kinds;
use crate::line::Place;
use crate::resource::Resource;
use crate::slab::{Slab, Slot};
use crate::treap::Nodes;
use crate::virtual_time::VirtualTime;
use rampmeter_protocol::splitmix::scatter;
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
        let root = self.root;
        let mut tree = Tree { nodes: &mut self.nodes, resource };
        let node = tree.plant(entry);
        self.root = tree.insert(root, node);
    }

    /// Takes out whoever has `turn`.
    pub(crate) fn remove(&mut self, resource: &Resource, turn: Turn) {
        let (root, found) = Tree { nodes: &mut self.nodes, resource }.remove(self.root, &turn);
        self.nodes.remove(found.expect("who leaves has a turn"));
        self.root = root;
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

    fn node(&self, link: Link) -> Option<&Node> {
        self.nodes.get(link?)
    }

    fn count(&self, link: Link) -> usize {
        self.node(link).map_or(0, |node| node.count as usize)
    }
}

/// The nodes, and by what bills are turned into credit.
struct Tree<'a> {
    nodes: &'a mut Slab<Node>,
    resource: &'a Resource,
}

impl Tree<'_> {
    fn plant(&mut self, entry: Entry) -> Slot {
        let (priority, kinds) = (scatter(entry.turn.place.serial), entry.kind);
        let backlog = Backlog::none(self.resource);
        let slot = self.nodes.insert(Node { entry, left: None, right: None, priority, count: 1, kinds, backlog });
        self.put_below(slot, [None, None]);
        slot
    }

    fn known(&self, slot: Slot) -> &Node {
        self.nodes.get(slot).expect("a slot in use")
    }
}

impl Nodes for Tree<'_> {
    type Place = Slot;
    type Key = Turn;

    fn key(&self, slot: Slot) -> Turn {
        self.known(slot).entry.turn
    }

    fn priority(&self, slot: Slot) -> u64 {
        self.known(slot).priority
    }

    fn below(&self, slot: Slot) -> [Link; 2] {
        let Node { left, right, .. } = self.known(slot);
        [*left, *right]
    }

    fn put_below(&mut self, slot: Slot, [left, right]: [Link; 2]) {
        let node = self.nodes.get_mut(slot).expect("a slot in use");
        let mut backlog = std::mem::take(&mut node.backlog);
        backlog.reset_to(self.resource, &node.entry.bill);
        let (mut count, mut kinds) = (1, node.entry.kind);
        for child in [left, right].into_iter().flatten().map(|child| self.known(child)) {
            count += child.count;
            kinds = kinds.and_also(child.kinds);
            backlog.add_all(&child.backlog);
        }
        let node = self.nodes.get_mut(slot).expect("a slot in use");
        (node.left, node.right) = (left, right);
        (node.count, node.kinds, node.backlog) = (count, kinds, backlog);
    }
}
