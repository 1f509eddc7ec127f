//! A set of limits as a bit mask.

use super::spec::MAX_LIMITS;
use crate::ids::LimitId;

/// A set of limits; bit `n` stands for the limit with index `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LimitSet(u64);

const _: () = assert!(MAX_LIMITS <= u64::BITS as usize, "every limit has a bit");

impl LimitSet {
    #[must_use]
    pub(crate) fn with(self, limit: LimitId) -> Self {
        LimitSet(self.0 | 1 << limit.index())
    }

    pub(crate) fn has(self, limit: LimitId) -> bool {
        self.0 & 1 << limit.index() != 0
    }

    #[must_use]
    pub(crate) fn and(self, other: LimitSet) -> Self {
        LimitSet(self.0 & other.0)
    }

    #[must_use]
    pub(crate) fn without(self, other: LimitSet) -> Self {
        LimitSet(self.0 & !other.0)
    }

    /// The members in ascending order.
    pub(crate) fn limits(self) -> impl Iterator<Item = LimitId> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let number = rest.trailing_zeros() as u8;
            rest &= rest.wrapping_sub(1);
            (number < 64).then_some(LimitId(number))
        })
    }

    pub(crate) const ALL: LimitSet = LimitSet(u64::MAX);
    /// No limit.
    pub(crate) const NONE: LimitSet = LimitSet(0);

    pub(crate) fn avoids(self, blocked: LimitSet) -> bool {
        self.0 & blocked.0 == 0
    }
}
