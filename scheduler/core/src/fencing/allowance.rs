//! The budget of one checkpoint for one bucket.

use crate::arithmetic::Credit;

/// A budget runs low when less than one part in this many is left.
const LOW_PART: u64 = 8;

/// The amount that may be granted of a bucket under one checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    all: Credit,
    left: Credit,
    /// The least that was ever left. What is given back serves the next call, so that calls in flight
    /// take no more budget than they have grown by.
    least: Credit,
}

impl Allowance {
    pub(crate) fn new(all: Credit) -> Self {
        assert!(all >= Credit::ZERO, "a budget takes nothing back");
        Allowance { all, left: all, least: all }
    }

    pub(crate) fn covers(self, cost: Credit) -> bool {
        self.left >= cost
    }

    pub(crate) fn charge(&mut self, cost: Credit) {
        assert!(cost >= Credit::ZERO, "a call gives nothing");
        self.left -= cost;
        self.least = self.least.min(self.left);
    }

    pub(crate) fn give_back(&mut self, cost: Credit) {
        assert!(cost >= Credit::ZERO, "a call that returns takes nothing");
        self.left += cost;
    }

    /// The expected demand under the next checkpoint: a quarter more than was needed under this
    /// one. If the next one comes `early` and more than half of the budget was needed, the budget
    /// or the need twice.
    pub(crate) fn expected(self, early: bool) -> Credit {
        let needed = self.all - self.least;
        if early && needed > self.all.divided_by(2) {
            let most = self.all.max(needed);
            return most + most;
        }
        needed + needed.divided_by(4)
    }

    /// The expected demand for a key: what was expected before, or if it `fades` half of that, until
    /// below one `token`.
    pub(crate) fn expected_of_key(self, token: Credit, fades: bool) -> Credit {
        self.expected(true).max(self.faded(token, fades))
    }

    /// The expected growth of a key's calls in flight. A crash loses the rest for long, so that it is
    /// no more than was needed.
    pub(crate) fn expected_places(self, place: Credit, fades: bool) -> Credit {
        (self.all - self.least).max(self.faded(place, fades))
    }

    fn faded(self, token: Credit, fades: bool) -> Credit {
        let faded = if fades { self.all.divided_by(2) } else { self.all };
        if faded < token { Credit::ZERO } else { faded }
    }

    /// Whether the rest may not suffice for another call of the `largest` size.
    pub(crate) fn runs_low(self, largest: Credit) -> bool {
        self.left < self.all.divided_by(LOW_PART).max(largest)
    }
}
