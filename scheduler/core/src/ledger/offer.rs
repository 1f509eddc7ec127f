//! What waiting requests demand of limits, and when limits can pay.

use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::{Bill, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Time;

/// The amounts that waiting requests will take from each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog(Vec<Credit>);

impl Backlog {
    pub(crate) fn none(resource: &Resource) -> Self {
        Backlog(vec![Credit::ZERO; resource.limits().len()])
    }

    pub(crate) fn add(&mut self, resource: &Resource, bill: &Bill) {
        for (id, amount) in bill.shared() {
            let sum = &mut self.0[id.index()];
            *sum = sum.saturating_add(resource[id].rate().credit(amount));
        }
    }

    pub(crate) fn reset_to(&mut self, resource: &Resource, bill: &Bill) {
        self.0.clear();
        self.0.resize(resource.limits().len(), Credit::ZERO);
        self.add(resource, bill);
    }

    pub(crate) fn add_all(&mut self, other: &Backlog) {
        assert_eq!(self.0.len(), other.0.len(), "both are of the same limits");
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine = mine.saturating_add(*theirs));
    }

    pub(crate) fn raise(&mut self, limit: LimitId, to: Credit) {
        let sum = &mut self.0[limit.index()];
        *sum = (*sum).max(to);
    }

    pub(crate) fn of(&self, limit: LimitId) -> Credit {
        self.0[limit.index()]
    }
}

/// A start that every bucket of a bill can pay, and the limit that moved it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) at: Time,
    pub(crate) limited_by: Option<LimitId>,
}

impl Offer {
    /// Returns the refusal of a request that cannot wait until this start.
    pub(crate) fn not_in_time(self, now: Time) -> Refusal {
        match self.limited_by {
            // The rest of a quota that is never reset may be promised to waiting requests.
            Some(limit) if self.at == Time::NEVER => {
                Refusal::QuotaSpent { limit, left: Amount::ZERO, retry_after: None }
            }
            limited_by => Refusal::NotInTime { retry_after: self.at.since(now), limited_by },
        }
    }
}
