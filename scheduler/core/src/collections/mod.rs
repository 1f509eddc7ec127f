//! Slabs, trees and indexes, which know nothing of limits.

mod index;
mod slab;
mod treap;

pub(crate) use index::Index;
pub(crate) use slab::{Slab, Slot};
pub(crate) use treap::Nodes;
