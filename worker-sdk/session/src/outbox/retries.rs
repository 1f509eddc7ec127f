//! The budget for sending again.

use crate::bucket::Bucket;
use crate::rng::Rng;
use rampmeter_protocol::time::{Span, Time};

/// The burst after a rest: 4 096 repeated requests at once, more than most clients have.
pub(crate) const BURST: u64 = 64;
/// Twenty messages a second, with 1 280 requests. At worst, a thousand clients send a tenth of what
/// a scheduler answers. A client with ten thousand requests repeats them all within five seconds.
pub(crate) const PACE: Span = Span::from_millis(50);

/// A client's budget, over all resources, for messages that repeat something; first messages need
/// none. In any time *t* it allows at most [`BURST`] + 1 + *t* / [`PACE`] of them.
#[derive(Debug)]
pub(crate) struct Retries {
    bucket: Bucket,
    opens: Time,
}

impl Default for Retries {
    fn default() -> Self {
        Retries { bucket: Bucket::new(PACE, BURST), opens: Time::ORIGIN }
    }
}

impl Retries {
    pub(crate) fn opens(&self) -> Time {
        self.opens
    }

    /// Takes the budget of one message. If that empties it, the next message waits a random part of
    /// the pace longer; clients with equally empty budgets would otherwise go on in step.
    pub(crate) fn spend(&mut self, now: Time, dice: &mut Rng) {
        self.bucket.take(now);
        self.opens = self.bucket.opens();
        if self.opens > now {
            self.opens += dice.span_up_to(PACE);
        }
    }
}
