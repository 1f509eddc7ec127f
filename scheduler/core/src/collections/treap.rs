//! The balanced tree of class queues and timelines: a treap (Aragon and Seidel, 1989) whose nodes
//! sum up the subtree below them.

/// The nodes of a tree, wherever they are kept, and how they sum up their subtrees.
pub(crate) trait Nodes {
    /// The index of a node.
    type Node: Copy;
    /// Orders the nodes. No two nodes of a tree have equal keys.
    type Key: Ord;

    fn key(&self, node: Self::Node) -> Self::Key;

    /// A number that is independent of the key.
    fn priority(&self, node: Self::Node) -> u64;

    /// The subtrees before and after a node.
    fn below(&self, node: Self::Node) -> [Option<Self::Node>; 2];

    /// Puts subtrees before and after a node, and updates its sums.
    fn put_below(&mut self, node: Self::Node, subtrees: [Option<Self::Node>; 2]);

    /// Adds `node`, which is in no tree, to the tree of `root`. Returns the new root.
    fn insert(&mut self, root: Option<Self::Node>, node: Self::Node) -> Option<Self::Node> {
        let (before, after) = self.split(root, &self.key(node));
        let before = self.merge(before, Some(node));
        self.merge(before, after)
    }

    /// Removes the node of `key` from the tree of `root`. Returns the new root, and the removed
    /// node if there was one.
    fn remove(&mut self, root: Option<Self::Node>, key: &Self::Key) -> (Option<Self::Node>, Option<Self::Node>) {
        let (before, rest) = self.split(root, key);
        let (first, after) = self.split_first(rest);
        let found = first.filter(|first| self.key(*first) == *key);
        let rest = if found.is_some() { after } else { self.merge(first, after) };
        (self.merge(before, rest), found)
    }

    /// Splits a tree into the nodes before `key` and all other nodes.
    fn split(&mut self, root: Option<Self::Node>, key: &Self::Key) -> (Option<Self::Node>, Option<Self::Node>) {
        let Some(node) = root else { return (None, None) };
        let [left, right] = self.below(node);
        if self.key(node) < *key {
            let (middle, after) = self.split(right, key);
            self.put_below(node, [left, middle]);
            (root, after)
        } else {
            let (before, middle) = self.split(left, key);
            self.put_below(node, [middle, right]);
            (before, root)
        }
    }

    /// Splits a tree into its first node and all other nodes.
    fn split_first(&mut self, root: Option<Self::Node>) -> (Option<Self::Node>, Option<Self::Node>) {
        let Some(node) = root else { return (None, None) };
        let [left, right] = self.below(node);
        if left.is_none() {
            return (root, right);
        }
        let (first, rest) = self.split_first(left);
        self.put_below(node, [rest, right]);
        (first, root)
    }

    /// Merges two trees. All nodes of the first come before all nodes of the second.
    fn merge(&mut self, first: Option<Self::Node>, second: Option<Self::Node>) -> Option<Self::Node> {
        let (Some(one), Some(other)) = (first, second) else { return first.or(second) };
        if self.priority(one) >= self.priority(other) {
            let [left, right] = self.below(one);
            let right = self.merge(right, second);
            self.put_below(one, [left, right]);
            first
        } else {
            let [left, right] = self.below(other);
            let left = self.merge(first, left);
            self.put_below(other, [left, right]);
            second
        }
    }
}
