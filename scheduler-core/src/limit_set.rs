//! Which limits a request needs, in a form that a tree can sum up.

use crate::bill::Bill;
use crate::resource::LimitId;

/// The limits of one bill, or of what is blocked: one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LimitSet(u64);

impl LimitSet {
    pub(crate) fn of(bill: &Bill) -> Self {
        bill.charged().fold(LimitSet::default(), LimitSet::with)
    }

    #[must_use]
    pub(crate) fn with(self, limit: LimitId) -> Self {
        LimitSet(self.0 | 1 << limit.index())
    }

    pub(crate) fn has(self, limit: LimitId) -> bool {
        self.0 & 1 << limit.index() != 0
    }

    /// The limits that are in both.
    #[must_use]
    pub(crate) fn and(self, other: LimitSet) -> Self {
        LimitSet(self.0 & other.0)
    }

    /// The limits that are not in `other`.
    #[must_use]
    pub(crate) fn without(self, other: LimitSet) -> Self {
        LimitSet(self.0 & !other.0)
    }

    /// The limits, by number.
    pub(crate) fn limits(self) -> impl Iterator<Item = LimitId> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let number = rest.trailing_zeros() as u8;
            rest &= rest.wrapping_sub(1);
            (number < 64).then_some(LimitId(number))
        })
    }

    /// Every limit.
    pub(crate) const ALL: LimitSet = LimitSet(u64::MAX);

    fn avoids(self, blocked: LimitSet) -> bool {
        self.0 & blocked.0 == 0
    }
}

/// Some of the sets that waiting requests need, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kinds(u64);

impl Kinds {
    pub(crate) const ALL: Kinds = Kinds(u64::MAX);

    pub(crate) fn meets(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }

    #[must_use]
    pub(crate) fn and_also(self, other: Kinds) -> Self {
        Kinds(self.0 | other.0)
    }

    fn number(self) -> usize {
        self.0.trailing_zeros() as usize
    }
}

/// Sets that are told apart while requests with them wait. A resource has as many as its units combine in; requests beyond share the
/// last bit, and are taken to need everything, as long as there are any.
const MAX_SETS: usize = 64;

/// The sets of those who wait, by number, and how many need each.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitSets(Vec<(LimitSet, usize)>);

impl LimitSets {
    /// The kind of this set alone, which it keeps from [`LimitSets::enter`] to [`LimitSets::leave`].
    pub(crate) fn kind(&self, set: LimitSet) -> Kinds {
        let known = self.0.iter().position(|(known, count)| *known == set && *count > 0);
        let free = || self.0.iter().position(|(_, count)| *count == 0).unwrap_or(self.0.len());
        Kinds(1 << known.unwrap_or_else(free).min(MAX_SETS - 1))
    }

    /// One more with this set waits.
    pub(crate) fn enter(&mut self, kind: Kinds, set: LimitSet) {
        let number = kind.number();
        self.0.resize(self.0.len().max(number + 1), Default::default());
        let needed = if number == MAX_SETS - 1 { LimitSet::ALL } else { set };
        self.0[number] = (needed, self.0[number].1 + 1);
    }

    /// One fewer waits.
    pub(crate) fn leave(&mut self, kind: Kinds) {
        self.0[kind.number()].1 -= 1;
    }

    /// The sets with nothing of what is blocked.
    pub(crate) fn avoiding(&self, blocked: LimitSet) -> Kinds {
        if blocked == LimitSet::default() {
            return Kinds::ALL;
        }
        self.kinds_of(|set| set.avoids(blocked))
    }

    /// The sets with none but the limits of `set`.
    pub(crate) fn within(&self, set: LimitSet) -> Kinds {
        self.kinds_of(|known| known.avoids(LimitSet(!set.0)))
    }

    /// The sets with `limit`.
    pub(crate) fn needing(&self, limit: LimitId) -> Kinds {
        self.kinds_of(|set| set.has(limit))
    }

    /// All that are waited with.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Kinds, LimitSet)> {
        let waited = self.0.iter().enumerate().filter(|(_, (_, count))| *count > 0);
        waited.map(|(number, (set, _))| (Kinds(1 << number), *set))
    }

    fn kinds_of(&self, is_in: impl Fn(LimitSet) -> bool) -> Kinds {
        self.iter().filter(|(_, set)| is_in(*set)).fold(Kinds::default(), |kinds, (kind, _)| kinds.and_also(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(sets: &mut LimitSets, set: LimitSet) -> Kinds {
        let kind = sets.kind(set);
        sets.enter(kind, set);
        kind
    }

    #[test]
    fn what_is_blocked_is_avoided() {
        let limits =
            |numbers: &[u8]| numbers.iter().fold(LimitSet::default(), |set, number| set.with(LimitId(*number)));
        let mut sets = LimitSets::default();
        let [a, ab, b] = [&[0][..], &[0, 1], &[1]].map(|numbers| enter(&mut sets, limits(numbers)));
        for (blocked, free) in [(&[][..], [true, true, true]), (&[0], [false, false, true]), (&[0, 1], [false; 3])] {
            let avoiding = sets.avoiding(limits(blocked));
            assert_eq!([a, ab, b].map(|kind| kind.meets(avoiding)), free, "{blocked:?} blocked");
        }
    }

    #[test]
    fn sets_beyond_the_bound_pass_none_and_are_told_apart_once_there_is_room() {
        let mut sets = LimitSets::default();
        let blocked = LimitSet(1);
        let kinds: Vec<Kinds> = (1..200).map(|number| enter(&mut sets, LimitSet(number << 1))).collect();
        let avoiding = sets.avoiding(blocked);
        assert!(kinds[0].meets(avoiding) && kinds[62].meets(avoiding));
        assert!(!kinds[63].meets(avoiding) && !kinds[198].meets(avoiding));
        assert!(kinds[198].meets(sets.avoiding(LimitSet::default())));
        kinds.into_iter().for_each(|kind| sets.leave(kind));
        let late = enter(&mut sets, LimitSet(200 << 1));
        assert!(late.meets(sets.avoiding(blocked)));
    }
}
