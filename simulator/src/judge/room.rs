//! How much may be taken of a limit at once.

use rampmeter_scheduler_core::policy::spec::{LimitSpec, Margin};

/// How much may be taken of a limit at once, in millionths of its unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    capacity: i128,
    margin: i128,
}

impl Room {
    /// What the upstream has.
    pub(super) fn upstream(limit: &LimitSpec) -> Self {
        Room { capacity: i128::from(limit.capacity.micros()), margin: 0 }
    }

    /// What is given out. Of what is counted, nothing is held back unless that is said.
    pub(super) fn given_out(limit: &LimitSpec) -> Self {
        let margin = match limit.margin {
            Margin::Auto => 0,
            Margin::Fixed(margin) => i128::from(margin.micros()),
        };
        Room { margin, ..Room::upstream(limit) }
    }

    /// How much is too much of what so many calls take together, if any is. One that costs more
    /// than is given out has the limit for itself.
    pub(super) fn excess(self, taken: i128, calls: usize) -> Option<i128> {
        let room = if calls == 1 { self.capacity } else { self.capacity - self.margin };
        Some(taken - room).filter(|excess| *excess > 0)
    }
}
