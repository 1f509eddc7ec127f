//! The balanced tree of class queues and timelines, whose nodes sum up the subtree below them: a
//! weight-balanced tree (Nievergelt and Reingold, 1973) with the parameters that Hirai and Yamamoto
//! proved (2011).
//!
//! The shape depends on the keys' order alone, and no order makes the tree deeper: of n nodes, at
//! most log(n) / log(4/3) are on a path, which is 77 for 2^32. So the recursion needs little stack.

use std::array;

/// A subtree may have so many times the nodes of its sibling.
const MAX_RATIO: usize = 3;
/// Below this ratio of the inner to the outer grandchild, a single rotation balances the tree.
const SINGLE_RATIO: usize = 2;

/// The nodes of a tree, wherever they are kept, and how they sum up their subtrees.
pub(crate) trait Nodes {
    /// The index of a node.
    type Node: Copy;
    /// Orders the nodes. No two nodes of a tree have equal keys.
    type Key: Ord;

    fn key(&self, node: Self::Node) -> Self::Key;

    /// How many nodes the subtree of `node` has.
    fn count(&self, node: Self::Node) -> usize;

    /// The subtrees before and after a node.
    fn below(&self, node: Self::Node) -> [Option<Self::Node>; 2];

    /// Puts subtrees before and after a node, and updates its count and sums.
    fn put_below(&mut self, node: Self::Node, subtrees: [Option<Self::Node>; 2]);

    /// Adds `node`, which is in no tree, to the tree of `root`. Returns the new root.
    fn insert(&mut self, root: Option<Self::Node>, node: Self::Node) -> Self::Node {
        let Some(root) = root else {
            self.put_below(node, [None, None]);
            return node;
        };
        let (mut subtrees, side) = (self.below(root), usize::from(self.key(root) < self.key(node)));
        subtrees[side] = Some(self.insert(subtrees[side], node));
        self.balance(root, subtrees)
    }

    /// Removes the node of `key` from the tree of `root`. Returns the new root, and the removed
    /// node if there was one.
    fn remove(&mut self, root: Option<Self::Node>, key: &Self::Key) -> (Option<Self::Node>, Option<Self::Node>) {
        let Some(node) = root else { return (None, None) };
        let (mut subtrees, own) = (self.below(node), self.key(node));
        if own == *key {
            return (self.join(subtrees), root);
        }
        let side = usize::from(own < *key);
        let (rest, found) = self.remove(subtrees[side], key);
        subtrees[side] = rest;
        (if found.is_some() { Some(self.balance(node, subtrees)) } else { root }, found)
    }

    /// Joins two neighbouring subtrees whose parent is gone.
    fn join(&mut self, mut subtrees: [Option<Self::Node>; 2]) -> Option<Self::Node> {
        let [Some(before), Some(after)] = subtrees else { return subtrees[0].or(subtrees[1]) };
        let side = usize::from(self.count(before) <= self.count(after));
        let (rest, outermost) = self.take_outermost([before, after][side], 1 - side);
        subtrees[side] = rest;
        Some(self.balance(outermost, subtrees))
    }

    /// Takes the outermost node of a side out of a tree. Returns the other nodes and this one.
    fn take_outermost(&mut self, root: Self::Node, side: usize) -> (Option<Self::Node>, Self::Node) {
        let mut subtrees = self.below(root);
        let Some(further) = subtrees[side] else { return (subtrees[1 - side], root) };
        let (rest, outermost) = self.take_outermost(further, side);
        subtrees[side] = rest;
        (Some(self.balance(root, subtrees)), outermost)
    }

    /// Puts balanced subtrees, of which one has gained or lost a node, below `node`. Returns the
    /// root of the balanced tree.
    fn balance(&mut self, node: Self::Node, subtrees: [Option<Self::Node>; 2]) -> Self::Node {
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
    fn rotate(&mut self, node: Self::Node, subtrees: [Option<Self::Node>; 2], side: usize) -> Self::Node {
        // The links of a side and of the other one, in order.
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

    /// A node for each key, to reach `MAX_RATIO`: its count, its height and its subtrees.
    #[derive(Default)]
    struct Numbers(Vec<(usize, u32, [Option<usize>; 2])>);

    impl Nodes for Numbers {
        type Node = usize;
        type Key = usize;

        fn key(&self, node: usize) -> usize {
            node
        }

        fn count(&self, node: usize) -> usize {
            self.0[node].0
        }

        fn below(&self, node: usize) -> [Option<usize>; 2] {
            self.0[node].2
        }

        fn put_below(&mut self, node: usize, subtrees: [Option<usize>; 2]) {
            let below = || subtrees.iter().flatten().map(|root| self.0[*root]);
            let (count, height) = (below().map(|node| node.0).sum::<usize>(), below().map(|node| node.1).max());
            self.0[node] = (1 + count, 1 + height.unwrap_or(0), subtrees);
        }
    }

    impl Numbers {
        /// The keys below `root`, in order.
        fn keys(&self, root: Option<usize>) -> Vec<usize> {
            let Some(node) = root else { return Vec::new() };
            let [before, after] = self.below(node).map(|root| self.keys(root));
            [before, vec![node], after].concat()
        }

        fn assert_sound(&self, root: Option<usize>, keys: &[usize]) {
            assert_eq!(self.keys(root), keys);
            let height = root.map_or(0, |root| self.0[root].1);
            // Each node of a path has at most three quarters of the nodes of the one above it.
            let most = (0..).scan(keys.len() + 1, |left, _| (*left > 0).then(|| *left = *left * 3 / 4)).count();
            assert!(height as usize <= most, "{height} high with {} nodes", keys.len());
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
            let mut tree = Numbers(vec![Default::default(); NODES]);
            let mut root = None;
            (0..NODES).for_each(|step| root = Some(tree.insert(root, enter(step))));
            tree.assert_sound(root, &(0..NODES).collect::<Vec<_>>());
            let mut rest: Vec<usize> = (0..NODES).collect();
            for step in 0..NODES {
                let removed;
                (root, removed) = tree.remove(root, &leave(step));
                assert_eq!(removed, Some(leave(step)));
                rest.retain(|key| *key != leave(step));
                if step % 100 == 0 {
                    tree.assert_sound(root, &rest);
                }
            }
        }
    }

    #[test]
    fn a_tree_that_gains_and_loses_nodes_stays_balanced() {
        let (mut tree, mut root, mut draws) = (Numbers(vec![Default::default(); 500]), None, SplitMix64::new(7));
        let mut inside = vec![false; 500];
        for step in 0..20_000 {
            let key = (draws.draw() % 500) as usize;
            if inside[key] {
                root = tree.remove(root, &key).0;
            } else {
                assert_eq!(tree.remove(root, &key).1, None);
                root = Some(tree.insert(root, key));
            }
            inside[key] = !inside[key];
            if step % 100 == 0 {
                let keys: Vec<usize> = (0..500).filter(|key| inside[*key]).collect();
                tree.assert_sound(root, &keys);
            }
        }
    }
}
