//! How much may be taken of a limit at once, in millionths of its unit.

use rampmeter_policy::spec::{LimitSpec, Margin};

#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    capacity: i128,
    margin: i128,
}

impl Room {
    pub(super) fn upstream(limit: &LimitSpec) -> Self {
        Room { capacity: i128::from(limit.capacity.micros()), margin: 0 }
    }

    /// The room that the scheduler gives out. Counted limits hold nothing back by default.
    pub(super) fn given_out(limit: &LimitSpec) -> Self {
        let margin = match limit.margin {
            Margin::Auto => 0,
            Margin::Fixed(margin) => i128::from(margin.micros()),
        };
        Room { margin, ..Room::upstream(limit) }
    }

    /// Returns how far calls exceed the room, or a single, more expensive call the capacity.
    pub(super) fn excess(self, taken: i128, calls: usize) -> Option<i128> {
        let room = if calls == 1 { self.capacity } else { self.capacity - self.margin };
        Some(taken - room).filter(|excess| *excess > 0)
    }
}
