//! The order in which those who wait in one class are served.
//!
//! A balanced tree (a treap; Aragon and Seidel, 1989) whose subtrees know how many wait in them, what those will take,
//! and which limits they need: who is first, who is first among those that a blocked limit does not hold, and what is
//! ahead of somebody are questions of O(log n).

use crate::bill::Bill;
use crate::ledger::Backlog;
use crate::line::Place;
use crate::resource::Resource;
use crate::scatter::scatter;
use crate::shape::ShapeSet;
use crate::slab::Slot;
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
    /// The limits that its bill charges.
    pub(crate) shapes: ShapeSet,
}

type Link = u32;
const NIL: Link = u32::MAX;

#[derive(Clone, Debug)]
struct Node {
    entry: Entry,
    left: Link,
    right: Link,
    priority: u64,
    /// Of the whole subtree.
    count: u32,
    shapes: ShapeSet,
    backlog: Backlog,
}

/// Everybody in one class.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    nodes: Vec<Node>,
    free: Vec<Link>,
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
        Order { nodes: Vec::new(), free: Vec::new(), root: NIL }
    }

    pub(crate) fn insert(&mut self, resource: &Resource, entry: Entry) {
        let turn = entry.turn;
        let node = self.allocate(resource, entry);
        let (before, after) = self.split(resource, self.root, turn);
        let before = self.merge(resource, before, node);
        self.root = self.merge(resource, before, after);
    }

    /// Takes out whoever has `turn`.
    pub(crate) fn remove(&mut self, resource: &Resource, turn: Turn) {
        let (before, rest) = self.split(resource, self.root, turn);
        let (found, after) = self.split_first(resource, rest);
        debug_assert!(self.node(found).is_some_and(|node| node.entry.turn == turn), "who leaves has a turn");
        self.free.push(found);
        self.root = self.merge(resource, before, after);
    }

    /// Gives the turn of one who waits to another.
    pub(crate) fn hand_turn(&mut self, turn: Turn, to: Slot) {
        let mut link = self.root;
        while let Some(node) = self.nodes.get_mut(link as usize) {
            match turn.cmp(&node.entry.turn) {
                std::cmp::Ordering::Less => link = node.left,
                std::cmp::Ordering::Greater => link = node.right,
                std::cmp::Ordering::Equal => {
                    node.entry.slot = to;
                    return;
                }
            }
        }
    }

    /// The first whose limits are among `shapes`.
    pub(crate) fn first_among(&self, shapes: ShapeSet) -> Option<&Entry> {
        let mut node = self.node(self.root).filter(|node| node.shapes.meets(shapes))?;
        loop {
            if let Some(left) = self.node(node.left).filter(|left| left.shapes.meets(shapes)) {
                node = left;
            } else if node.entry.shapes.meets(shapes) {
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
            let node = self.node(path.pop()?)?;
            self.descend(node.right, &mut path);
            Some(&node.entry)
        })
    }

    fn descend(&self, mut link: Link, path: &mut Vec<Link>) {
        while let Some(node) = self.node(link) {
            path.push(link);
            link = node.left;
        }
    }

    /// Everybody before `turn`, and the rest.
    fn split(&mut self, resource: &Resource, link: Link, turn: Turn) -> (Link, Link) {
        let Some(&Node { entry: Entry { turn: own, .. }, left, right, .. }) = self.node(link) else { return (NIL, NIL) };
        if own < turn {
            let (middle, after) = self.split(resource, right, turn);
            self.nodes[link as usize].right = middle;
            self.update(resource, link);
            (link, after)
        } else {
            let (before, middle) = self.split(resource, left, turn);
            self.nodes[link as usize].left = middle;
            self.update(resource, link);
            (before, link)
        }
    }

    /// The first alone, and the rest.
    fn split_first(&mut self, resource: &Resource, link: Link) -> (Link, Link) {
        let Some(&Node { left, right, .. }) = self.node(link) else { return (NIL, NIL) };
        if left == NIL {
            return (link, right);
        }
        let (first, rest) = self.split_first(resource, left);
        self.nodes[link as usize].left = rest;
        self.update(resource, link);
        (first, link)
    }

    /// One tree of two, all of the first before all of the second.
    fn merge(&mut self, resource: &Resource, first: Link, second: Link) -> Link {
        let (Some(a), Some(b)) = (self.node(first), self.node(second)) else {
            return if first == NIL { second } else { first };
        };
        if a.priority >= b.priority {
            let right = self.merge(resource, a.right, second);
            self.nodes[first as usize].right = right;
            self.update(resource, first);
            first
        } else {
            let left = self.merge(resource, first, b.left);
            self.nodes[second as usize].left = left;
            self.update(resource, second);
            second
        }
    }

    fn update(&mut self, resource: &Resource, link: Link) {
        let Node { left, right, .. } = self.nodes[link as usize];
        let mut node_backlog = std::mem::take(&mut self.nodes[link as usize].backlog);
        node_backlog.reset_to(resource, &self.nodes[link as usize].entry.bill);
        let (mut count, mut shapes) = (1, self.nodes[link as usize].entry.shapes);
        for child in [left, right].into_iter().filter_map(|child| self.node(child)) {
            count += child.count;
            shapes = shapes.and_also(child.shapes);
            node_backlog.add_all(&child.backlog);
        }
        let node = &mut self.nodes[link as usize];
        (node.count, node.shapes, node.backlog) = (count, shapes, node_backlog);
    }

    fn allocate(&mut self, resource: &Resource, entry: Entry) -> Link {
        let (priority, shapes) = (scatter(entry.turn.place.serial), entry.shapes);
        let backlog = Backlog::none(resource);
        let node = Node { entry, left: NIL, right: NIL, priority, count: 1, shapes, backlog };
        let link = match self.free.pop() {
            Some(link) => {
                self.nodes[link as usize] = node;
                link
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as Link
            }
        };
        self.update(resource, link);
        link
    }

    fn node(&self, link: Link) -> Option<&Node> {
        self.nodes.get(link as usize)
    }

    fn count(&self, link: Link) -> usize {
        self.node(link).map_or(0, |node| node.count as usize)
    }
}
