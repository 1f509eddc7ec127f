//! What one start takes.

use super::credit::Credit;
use crate::ids::Tier;
/// What one start takes from a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) cost: Credit,
    pub(crate) tier: Tier,
}
