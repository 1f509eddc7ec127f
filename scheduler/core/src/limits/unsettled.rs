//! What the calls of a quota that are not settled may still give back.
//!
//! A call reserves the most that it may cost, and its settle returns the rest. A request that does
//! not fit may thus fit soon. How much comes back is estimated from what came back so far: nothing
//! of a quota whose calls cost what they reserve.

use crate::limits::timeline::StartKey;
use rampmeter_policy::arithmetic::{Correction, Credit};
use rampmeter_protocol::time::{Span, Time};

/// A call that is not settled within this time, or at most twice as long, is not expected to be.
pub(crate) const SETTLED_WITHIN: Span = Span::from_secs(300);
/// The estimate follows about as many of the last calls.
const MEMORY: u64 = 64;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unsettled {
    /// Calls that start from here on are in `young`, those of as long before in `old`.
    since: Time,
    young: Credit,
    old: Credit,
    /// What calls had reserved that were settled, and what they cost; both fade.
    reserved: Credit,
    cost: Credit,
}

impl Unsettled {
    pub(crate) fn begin(&mut self, now: Time, start: StartKey, cost: Credit) {
        self.advance(now);
        let open = if start.at >= self.since { &mut self.young } else { &mut self.old };
        *open += cost;
    }

    pub(crate) fn withdraw(&mut self, start: StartKey, cost: Credit) {
        let Unsettled { since, young, old, .. } = self;
        // A start that was promised ahead may be among those of before.
        let (own, other) = if start.at >= *since { (young, old) } else { (old, young) };
        let of_own = cost.min(*own);
        *own -= of_own;
        *other = (*other - (cost - of_own)).max(Credit::ZERO);
    }

    pub(crate) fn settle(&mut self, start: StartKey, Correction { charged, actual }: Correction) {
        self.withdraw(start, charged);
        for (sum, part) in [(&mut self.reserved, charged), (&mut self.cost, actual.min(charged))] {
            *sum = sum.saturating_add(part - sum.divided_by(MEMORY));
        }
    }

    /// Estimates how much comes back to the window that began at `began`.
    pub(crate) fn returns(mut self, now: Time, began: Time) -> Credit {
        self.advance(now);
        if self.since < began {
            return Credit::ZERO;
        }
        let kept = match self.reserved {
            Credit::ZERO => 1_000_000,
            reserved => self.cost.ppm_of(reserved).min(1_000_000),
        };
        (self.young + self.old).divided_by(1_000_000).times(1_000_000 - kept)
    }

    /// Begins with a call of a predecessor, which has recorded it as calls there cost less than they
    /// reserve. The next settle tells how much.
    pub(crate) fn inherit(&mut self, now: Time, start: StartKey, cost: Credit) {
        self.begin(now, start, cost);
        self.reserved = self.reserved.max(cost.divided_by(MEMORY));
    }

    /// Whether calls have cost less than they reserved.
    pub(crate) fn may_return(&self) -> bool {
        self.cost < self.reserved
    }

    fn advance(&mut self, now: Time) {
        let passed = now.since(self.since);
        if passed >= SETTLED_WITHIN {
            let young = std::mem::take(&mut self.young);
            self.old = if passed < SETTLED_WITHIN + SETTLED_WITHIN { young } else { Credit::ZERO };
            self.since = now;
        }
    }
}
