//! Counts calls that an upstream calls invalid, and closes it when there are too many.

use crate::{Amount, Rejection, counting::meter::Meter, preset::InvalidCalls, refusal::Refusal, rule::Sharing};

/// Counts invalid calls. If there are too many, every call is refused until there is room again.
/// Those refusals do not count.
#[derive(Clone, Debug)]
pub(crate) struct Ban {
    counts: InvalidCalls,
    meter: Meter,
}

impl Ban {
    pub(crate) fn new(counts: InvalidCalls) -> Self {
        Self { meter: Meter::new(&counts.policy, 0), counts }
    }

    /// How a call that arrives at `now_ns` is refused, if the upstream is closed.
    pub(crate) fn refusal(&mut self, now_ns: u64) -> Option<(Refusal, Rejection)> {
        self.meter.advance(now_ns);
        Some((self.counts.refusal, self.meter.refusal(Amount::ONE)?))
    }

    /// Counts an answer. A refusal of a limit that other accounts have used up does not count.
    pub(crate) fn count(&mut self, status: u16, sharing: Option<Sharing>) {
        if self.counts.statuses.contains(&status) && sharing != Some(Sharing::Shared) {
            self.meter.charge(Amount::ONE);
        }
    }
}
