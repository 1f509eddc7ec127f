//! The balanced tree of class queues and timelines, whose nodes sum up the subtree below them: a
//! weight-balanced tree (Nievergelt and Reingold, 1973) with the parameters that Hirai and Yamamoto
//! proved (2011).
//!
//! No order of insertion makes the tree deeper than log(n) / log(4/3) for n nodes, which is 77 for
//! 2^32. So the recursion needs little stack.

use super::slab::{Slab, Slot};
use std::array;

/// A subtree may have this many times the nodes of its sibling.
const MAX_RATIO: usize = 3;
/// Below this ratio of the inner to the outer grandchild, a single rotation balances the tree.
const SINGLE_RATIO: usize = 2;

pub(crate) type Link = Option<Slot>;

#[derive(Clone, Debug)]
pub(crate) struct Node<V, S> {
    pub(crate) value: V,
    pub(crate) below: [Link; 2],
    pub(crate) count: u32,
    pub(crate) sum: S,
}

/// How the values of a tree are ordered and summed up.
pub(crate) trait Sums {
    type Value;
    type Sum: Default;
    /// Orders the values. No two values of a tree have equal keys.
    type Key: Ord;

    fn key(&self, value: &Self::Value) -> Self::Key;

    /// Sums up a value and the subtrees before and after it. The `former` sum may be reused.
    fn sum(&self, value: &Self::Value, below: [Option<&Self::Sum>; 2], former: Self::Sum) -> Self::Sum;
}

pub(crate) fn in_order<V, S>(nodes: &Slab<Node<V, S>>, root: Link) -> impl Iterator<Item = &V> {
    let (mut path, mut link) = (Vec::new(), root);
    std::iter::from_fn(move || {
        while let Some(node) = link.and_then(|slot| nodes.get(slot)) {
            path.push(node);
            link = node.below[0];
        }
        let node = path.pop()?;
        link = node.below[1];
        Some(&node.value)
    })
}

/// The nodes of some trees, one of which is changed.
pub(crate) struct Tree<'a, B: Sums> {
    pub(crate) nodes: &'a mut Slab<Node<B::Value, B::Sum>>,
    pub(crate) by: B,
}

impl<B: Sums> Tree<'_, B> {
    pub(crate) fn insert(&mut self, root: Link, value: B::Value) -> Slot {
        let node = self.nodes.insert(Node { value, below: [None, None], count: 1, sum: B::Sum::default() });
        self.insert_node(root, node)
    }

    /// Removes the value of `key`. Returns the new root, and the value if there was one.
    pub(crate) fn remove(&mut self, root: Link, key: &B::Key) -> (Link, Option<B::Value>) {
        let (root, found) = self.remove_node(root, key);
        (root, found.and_then(|node| self.nodes.remove(node)).map(|node| node.value))
    }

    fn known(&self, node: Slot) -> &Node<B::Value, B::Sum> {
        self.nodes.get(node).expect("a slot in use")
    }

    fn key(&self, node: Slot) -> B::Key {
        self.by.key(&self.known(node).value)
    }

    fn count(&self, node: Slot) -> usize {
        self.known(node).count as usize
    }

    fn below(&self, node: Slot) -> [Link; 2] {
        self.known(node).below
    }

    /// Attaches subtrees before and after a node, and updates its count and sum.
    fn put_below(&mut self, node: Slot, below: [Link; 2]) {
        let former = std::mem::take(&mut self.nodes.get_mut(node).expect("a slot in use").sum);
        let subtrees = below.map(|root| root.map(|root| self.known(root)));
        let count = 1 + subtrees.iter().flatten().map(|root| root.count).sum::<u32>();
        let sum = self.by.sum(&self.known(node).value, subtrees.map(|root| root.map(|root| &root.sum)), former);
        let known = self.nodes.get_mut(node).expect("a slot in use");
        (known.below, known.count, known.sum) = (below, count, sum);
    }

    fn insert_node(&mut self, root: Link, node: Slot) -> Slot {
        let Some(root) = root else {
            self.put_below(node, [None, None]);
            return node;
        };
        let (mut subtrees, side) = (self.below(root), usize::from(self.key(root) < self.key(node)));
        subtrees[side] = Some(self.insert_node(subtrees[side], node));
        self.balance(root, subtrees)
    }

    fn remove_node(&mut self, root: Link, key: &B::Key) -> (Link, Link) {
        let Some(node) = root else { return (None, None) };
        let (mut subtrees, own) = (self.below(node), self.key(node));
        if own == *key {
            return (self.join(subtrees), root);
        }
        let side = usize::from(own < *key);
        let (rest, found) = self.remove_node(subtrees[side], key);
        subtrees[side] = rest;
        (if found.is_some() { Some(self.balance(node, subtrees)) } else { root }, found)
    }

    /// Joins two neighbouring subtrees whose parent is gone.
    fn join(&mut self, mut subtrees: [Link; 2]) -> Link {
        let [Some(before), Some(after)] = subtrees else { return subtrees[0].or(subtrees[1]) };
        let side = usize::from(self.count(before) <= self.count(after));
        let (rest, outermost) = self.take_outermost([before, after][side], 1 - side);
        subtrees[side] = rest;
        Some(self.balance(outermost, subtrees))
    }

    /// Removes the outermost node of a side from a tree. Returns the other nodes and this one.
    fn take_outermost(&mut self, root: Slot, side: usize) -> (Link, Slot) {
        let mut subtrees = self.below(root);
        let Some(further) = subtrees[side] else { return (subtrees[1 - side], root) };
        let (rest, outermost) = self.take_outermost(further, side);
        subtrees[side] = rest;
        (Some(self.balance(root, subtrees)), outermost)
    }

    /// Attaches balanced subtrees, one of which has gained or lost a node. Returns the new root.
    fn balance(&mut self, node: Slot, subtrees: [Link; 2]) -> Slot {
        let counts = subtrees.map(|subtree| subtree.map_or(0, |root| self.count(root)));
        let is_heavy = |side: usize| counts[side] > (counts[1 - side] * MAX_RATIO).max(1);
        match [0, 1].into_iter().find(|side| is_heavy(*side)) {
            Some(side) => self.rotate(node, subtrees, side),
            None => {
                self.put_below(node, subtrees);
                node
            }
        }
    }

    /// Moves nodes from the heavy `side` of `node` to the other one. Returns the new root.
    fn rotate(&mut self, node: Slot, subtrees: [Link; 2], side: usize) -> Slot {
        let links = |of_side, other| array::from_fn(|index| if index == side { of_side } else { other });
        let child = subtrees[side].expect("a heavy side has a node");
        let grandchildren = self.below(child);
        let (outer, inner) = (grandchildren[side], grandchildren[1 - side]);
        let [of_outer, of_inner] = [outer, inner].map(|subtree| subtree.map_or(0, |root| self.count(root)));
        match inner.filter(|_| of_inner >= SINGLE_RATIO * of_outer) {
            None => {
                self.put_below(node, links(inner, subtrees[1 - side]));
                self.put_below(child, links(outer, Some(node)));
                child
            }
            Some(inner) => {
                let within = self.below(inner);
                self.put_below(node, links(within[1 - side], subtrees[1 - side]));
                self.put_below(child, links(outer, within[side]));
                self.put_below(inner, links(Some(child), Some(node)));
                inner
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::splitmix::SplitMix64;

    /// Sums up the height, to reach `MAX_RATIO`.
    struct Heights;

    impl Sums for Heights {
        type Value = usize;
        type Sum = u32;
        type Key = usize;

        fn key(&self, value: &usize) -> usize {
            *value
        }

        fn sum(&self, _: &usize, below: [Option<&u32>; 2], _: u32) -> u32 {
            1 + below.into_iter().flatten().max().copied().unwrap_or(0)
        }
    }

    #[derive(Default)]
    struct Numbers {
        nodes: Slab<Node<usize, u32>>,
        root: Link,
    }

    impl Numbers {
        fn insert(&mut self, number: usize) {
            let root = self.root;
            self.root = Some(Tree { nodes: &mut self.nodes, by: Heights }.insert(root, number));
        }

        fn remove(&mut self, number: usize) -> Option<usize> {
            let (root, removed) = Tree { nodes: &mut self.nodes, by: Heights }.remove(self.root, &number);
            self.root = root;
            removed
        }

        fn assert_sound(&self, numbers: &[usize]) {
            assert!(in_order(&self.nodes, self.root).eq(numbers));
            let height = self.root.and_then(|root| self.nodes.get(root)).map_or(0, |root| root.sum);
            // Each node of a path has at most three quarters of the nodes of the one above it.
            let most = (0..).scan(numbers.len() + 1, |left, _| (*left > 0).then(|| *left = *left * 3 / 4)).count();
            assert!(height as usize <= most, "{height} high with {} nodes", numbers.len());
        }
    }

    #[test]
    fn no_order_makes_a_tree_deep() {
        const NODES: usize = 3_000;
        let orders: [fn(usize) -> usize; 4] = [
            |step| step,
            |step| NODES - 1 - step,
            |step| if step % 2 == 0 { step / 2 } else { NODES - 1 - step / 2 },
            |step| step * 7919 % NODES,
        ];
        for (enter, leave) in orders.iter().flat_map(|enter| orders.map(|leave| (enter, leave))) {
            let mut tree = Numbers::default();
            (0..NODES).for_each(|step| tree.insert(enter(step)));
            tree.assert_sound(&(0..NODES).collect::<Vec<_>>());
            let mut rest: Vec<usize> = (0..NODES).collect();
            for step in 0..NODES {
                assert_eq!(tree.remove(leave(step)), Some(leave(step)));
                rest.retain(|number| *number != leave(step));
                if step % 100 == 0 {
                    tree.assert_sound(&rest);
                }
            }
        }
    }

    #[test]
    fn a_tree_that_gains_and_loses_nodes_stays_balanced() {
        let (mut tree, mut draws) = (Numbers::default(), SplitMix64::new(7));
        let mut inside = vec![false; 500];
        for step in 0..20_000 {
            let number = (draws.draw() % 500) as usize;
            let removed = tree.remove(number);
            assert_eq!(removed, inside[number].then_some(number));
            if removed.is_none() {
                tree.insert(number);
            }
            inside[number] = !inside[number];
            if step % 100 == 0 {
                tree.assert_sound(&(0..500).filter(|number| inside[*number]).collect::<Vec<_>>());
            }
        }
    }
}
