//! What one checkpoint allows of one bucket.

use crate::arithmetic::Credit;
/// It runs low when less than one part in this many is left.
const LOW_PART: u64 = 8;

/// What may be granted of a bucket under a checkpoint, and what is left of that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    all: Credit,
    left: Credit,
    /// What was granted; also what has come back since.
    granted: Credit,
}

impl Allowance {
    /// So much, of which nothing is granted.
    pub(crate) fn new(all: Credit) -> Self {
        Allowance { all, left: all, granted: Credit::ZERO }
    }

    pub(crate) fn covers(self, cost: Credit) -> bool {
        self.left >= cost
    }

    pub(crate) fn charge(&mut self, cost: Credit) {
        self.left -= cost;
        self.granted += cost;
    }

    pub(crate) fn give_back(&mut self, cost: Credit) {
        self.left += cost;
    }

    /// What the next checkpoint is to allow: a little more than was granted under this one, or twice as much where most was used up `early`.
    pub(crate) fn expected(self, early: bool) -> Credit {
        if early && self.granted > self.all.divided_by(2) {
            let most = self.all.max(self.granted);
            return most + most;
        }
        self.granted + self.granted.divided_by(4)
    }

    /// The same for a bucket that nobody may use any more: what is allowed gets less with every checkpoint, until that is less than `one`.
    pub(crate) fn fading(self, one: Credit) -> Credit {
        let faded = self.all.divided_by(2);
        self.expected(true).max(if faded < one { Credit::ZERO } else { faded })
    }

    /// Whether it might not do for another call as large as the `largest`.
    pub(crate) fn runs_low(self, largest: Credit) -> bool {
        self.left < self.all.divided_by(LOW_PART).max(largest)
    }
}
