//! Resources, classes and limits of the file.

pub(super) mod algorithm;
pub(super) mod applies;
pub(super) mod dialect;
pub(super) mod fair_share;
pub(super) mod pricing;
pub(super) mod table;
