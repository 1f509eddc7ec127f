//! Slabs, trees and indexes, which know nothing of limits.

mod balanced_tree;
mod slab;

pub(crate) use balanced_tree::{Link, Node, Sums, Tree, in_order};
pub(crate) use slab::{Index, Slab, Slot};
