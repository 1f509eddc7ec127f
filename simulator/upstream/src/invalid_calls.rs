//! Counts invalid calls. While there are too many, all calls are rejected without being counted.

use crate::{Amount, Rejection, counting::meter::Meter, preset::InvalidCalls, refusal::Refusal, rule::Sharing};

#[derive(Clone, Debug)]
pub(crate) struct Ban {
    counts: InvalidCalls,
    meter: Meter,
}

impl Ban {
    pub(crate) fn new(counts: InvalidCalls) -> Self {
        Self { meter: Meter::new(&counts.policy, 0), counts }
    }

    pub(crate) fn refusal(&mut self, now_ns: u64) -> Option<(Refusal, Rejection)> {
        self.meter.advance(now_ns);
        Some((self.counts.refusal, self.meter.refusal(Amount::ONE)?))
    }

    /// Counts a response. A rejection by a limit that other accounts have used up does not count.
    pub(crate) fn count(&mut self, status: u16, sharing: Option<Sharing>) {
        if self.counts.statuses.contains(&status) && sharing != Some(Sharing::Shared) {
            self.meter.charge(Amount::ONE);
        }
    }
}
