//! Resources, classes and limits of the file.

pub(super) mod algorithm;
pub(super) mod objections;
pub(super) mod parts;
pub(super) mod pricing;
pub(super) mod table;
