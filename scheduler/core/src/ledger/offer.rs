//! A start that a request can have.

use crate::ids::LimitId;
use crate::refusal::Refusal;
use rampmeter_protocol::time::Time;

/// A start that every bucket of a bill can pay, and the limit that moved it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) at: Time,
    pub(crate) limited_by: Option<LimitId>,
}

impl Offer {
    /// The refusal of a request that cannot wait until this start.
    pub(crate) fn not_in_time(self, now: Time) -> Refusal {
        match self.limited_by {
            // The rest of a quota that is never reset may be promised to waiting requests.
            Some(limit) if self.at == Time::NEVER => Refusal::QuotaSpent { limit, retry_after: None },
            limited_by => Refusal::NotInTime { retry_after: self.at.since(now), limited_by },
        }
    }
}
