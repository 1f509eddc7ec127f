//! Slabs, trees and indexes, which know nothing of limits.

mod balanced_tree;
mod index;
mod slab;

pub(crate) use balanced_tree::Nodes;
pub(crate) use index::Index;
pub(crate) use slab::{Slab, Slot};
