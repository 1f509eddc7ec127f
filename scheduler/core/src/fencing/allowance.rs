//! The budget of one checkpoint for one bucket.

use crate::arithmetic::Credit;

/// A budget runs low when less than one part in this many is left.
const LOW_PART: u64 = 8;

/// The amount that may be granted of a bucket under one checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    all: Credit,
    left: Credit,
    /// All grants so far, including those that were given back.
    granted: Credit,
}

impl Allowance {
    pub(crate) fn new(all: Credit) -> Self {
        assert!(all >= Credit::ZERO, "a budget takes nothing back");
        Allowance { all, left: all, granted: Credit::ZERO }
    }

    pub(crate) fn covers(self, cost: Credit) -> bool {
        self.left >= cost
    }

    pub(crate) fn charge(&mut self, cost: Credit) {
        assert!(cost >= Credit::ZERO, "a call gives nothing");
        self.left -= cost;
        self.granted += cost;
    }

    pub(crate) fn give_back(&mut self, cost: Credit) {
        assert!(cost >= Credit::ZERO, "a call that returns takes nothing");
        self.left += cost;
    }

    /// The expected demand under the next checkpoint: a quarter more than was granted under this
    /// one. If the next one comes `early` and more than half of the budget was granted, the budget
    /// or the grants twice.
    pub(crate) fn expected(self, early: bool) -> Credit {
        if early && self.granted > self.all.divided_by(2) {
            let most = self.all.max(self.granted);
            return most + most;
        }
        self.granted + self.granted.divided_by(4)
    }

    /// The expected demand for a key: what was expected before, or if it `fades` half of that, until
    /// below one `token`.
    pub(crate) fn expected_of_key(self, token: Credit, fades: bool) -> Credit {
        let faded = if fades { self.all.divided_by(2) } else { self.all };
        self.expected(true).max(if faded < token { Credit::ZERO } else { faded })
    }

    /// Whether the rest may not suffice for another call of the `largest` size.
    pub(crate) fn runs_low(self, largest: Credit) -> bool {
        self.left < self.all.divided_by(LOW_PART).max(largest)
    }
}
