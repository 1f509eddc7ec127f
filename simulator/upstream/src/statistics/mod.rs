//! Statistics of an upstream.

pub(super) mod admission;
pub(super) mod stats;
pub(super) mod tally;
pub(super) mod utilisation;
