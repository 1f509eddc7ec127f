//! How much may be sent again.

use super::bucket::Bucket;
use super::dice::Dice;
use rampmeter_protocol::time::{Span, Time};

/// After a rest: a new leader is asked 4 096 requests again at once, more than most clients have.
pub(super) const BURST: u64 = 64;
/// Twenty messages a second, 1 280 requests: a thousand clients at their worst make a tenth of what a
/// scheduler answers, and who has ten thousand requests has asked them all again within five seconds.
pub(super) const PACE: Span = Span::from_millis(50);

/// The budget of a whole client, over all its resources, for messages with something that was sent before.
///
/// In any time *t* it allows no more than [`BURST`] + 1 + *t* / [`PACE`] of them. What is sent for the
/// first time needs none of it.
#[derive(Debug)]
pub(super) struct Retries {
    bucket: Bucket,
    opens: Time,
}

impl Default for Retries {
    fn default() -> Self {
        Retries { bucket: Bucket::new(PACE, BURST), opens: Time::ORIGIN }
    }
}

impl Retries {
    /// From when on there is something left.
    pub(super) fn opens(&self) -> Time {
        self.opens
    }

    /// Takes one message's worth. Who has to wait does so for a part of the pace more, by chance: clients
    /// whose budgets were empty at the same time would go on in step.
    pub(super) fn spend(&mut self, now: Time, dice: &mut Dice) {
        self.bucket.take(now);
        self.opens = self.bucket.opens();
        if self.opens > now {
            self.opens += dice.span_up_to(PACE);
        }
    }
}
