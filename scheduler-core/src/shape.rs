//! Which limits a request needs, in a form that a tree can sum up.

use crate::bill::Bill;
use crate::resource::LimitId;

/// The limits of one bill, or of what is blocked: one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shape(u64);

impl Shape {
    pub(crate) fn of(bill: &Bill) -> Self {
        bill.charged().fold(Shape::default(), Shape::with)
    }

    #[must_use]
    pub(crate) fn with(self, limit: LimitId) -> Self {
        Shape(self.0 | 1 << limit.index())
    }

    pub(crate) fn has(self, limit: LimitId) -> bool {
        self.0 & 1 << limit.index() != 0
    }

    /// The limits that are in both.
    #[must_use]
    pub(crate) fn and(self, other: Shape) -> Self {
        Shape(self.0 & other.0)
    }

    /// The limits that are not in `other`.
    #[must_use]
    pub(crate) fn without(self, other: Shape) -> Self {
        Shape(self.0 & !other.0)
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

    fn avoids(self, blocked: Shape) -> bool {
        self.0 & blocked.0 == 0
    }
}

/// A set of shapes, one bit for each that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShapeSet(u64);

impl ShapeSet {
    pub(crate) const ALL: ShapeSet = ShapeSet(u64::MAX);

    pub(crate) fn meets(self, other: ShapeSet) -> bool {
        self.0 & other.0 != 0
    }

    #[must_use]
    pub(crate) fn and_also(self, other: ShapeSet) -> Self {
        ShapeSet(self.0 | other.0)
    }
}

/// Shapes that are told apart. A resource has as many as its units combine in; whatever is beyond shares the last bit
/// and is taken to need everything.
const MAX_SHAPES: usize = 64;

/// The shapes that were seen, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes(Vec<Shape>);

impl Shapes {
    /// The set of this shape alone.
    pub(crate) fn alone(&mut self, shape: Shape) -> ShapeSet {
        let known = self.0.iter().position(|known| *known == shape);
        let number = known.unwrap_or_else(|| self.learn(shape));
        ShapeSet(1 << number)
    }

    /// The shapes that need nothing of what is blocked.
    pub(crate) fn avoiding(&self, blocked: Shape) -> ShapeSet {
        if blocked == Shape::default() {
            return ShapeSet::ALL;
        }
        self.set_of(|shape| shape.avoids(blocked))
    }

    /// The shapes that need none but the limits of `shape`.
    pub(crate) fn within(&self, shape: Shape) -> ShapeSet {
        self.set_of(|known| known.avoids(Shape(!shape.0)))
    }

    /// The shapes that need `limit`.
    pub(crate) fn needing(&self, limit: LimitId) -> ShapeSet {
        ShapeSet(!self.avoiding(Shape::default().with(limit)).0)
    }

    fn set_of(&self, is_in: impl Fn(Shape) -> bool) -> ShapeSet {
        let numbers = self.0.iter().enumerate().filter(|(_, shape)| is_in(**shape)).map(|(number, _)| number);
        ShapeSet(numbers.fold(0, |set, number| set | 1 << number))
    }

    fn learn(&mut self, shape: Shape) -> usize {
        if self.0.len() == MAX_SHAPES - 1 {
            return MAX_SHAPES - 1;
        }
        self.0.push(shape);
        self.0.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_blocked_is_avoided() {
        let limits =
            |numbers: &[u8]| numbers.iter().fold(Shape::default(), |shape, number| shape.with(LimitId(*number)));
        let mut shapes = Shapes::default();
        let [a, ab, b] = [&[0][..], &[0, 1], &[1]].map(|numbers| shapes.alone(limits(numbers)));
        for (blocked, free) in [(&[][..], [true, true, true]), (&[0], [false, false, true]), (&[0, 1], [false; 3])] {
            let avoiding = shapes.avoiding(limits(blocked));
            assert_eq!([a, ab, b].map(|shape| shape.meets(avoiding)), free, "{blocked:?} blocked");
        }
    }

    #[test]
    fn shapes_beyond_the_bound_pass_nobody() {
        let mut shapes = Shapes::default();
        let limits = |number: u64| Shape(number);
        let sets: Vec<ShapeSet> = (1..200).map(|number| shapes.alone(limits(number << 1))).collect();
        let avoiding = shapes.avoiding(limits(1));
        assert!(sets[0].meets(avoiding) && sets[62].meets(avoiding));
        assert!(!sets[63].meets(avoiding) && !sets[198].meets(avoiding));
        assert!(sets[198].meets(shapes.avoiding(limits(0))));
    }
}
