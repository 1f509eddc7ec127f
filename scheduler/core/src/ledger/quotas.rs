//! Quotas: which are spent, and what settles of calls in flight may give back.

use super::{Charge, Ledger, charges};
use crate::limits::StartKey;
use rampmeter_policy::ids::{LimitId, Tier};
use rampmeter_policy::{Bill, LimitSet};
use rampmeter_protocol::time::Time;

impl Ledger {
    /// Returns a quota that cannot pay now, but is likely to once the calls in flight are settled.
    pub(crate) fn quota_expecting_settles(&self, now: Time, bill: &Bill) -> Option<LimitId> {
        charges(bill).find(|charge| self.expects_settles(now, *charge)).map(|charge| charge.limit)
    }

    pub(super) fn expects_settles(&self, now: Time, charge: Charge) -> bool {
        self.adaptive(charge.limit).limit().is_quota()
            && self.read(now, charge, |bucket, limit| {
                let demand = limit.demand(limit.start_cost(charge.amount, Tier::NO_HEADROOM).credit, Tier::NO_HEADROOM);
                let level = bucket.level(limit, now);
                level < demand && demand <= level + bucket.returns(limit, now)
            })
    }

    pub(crate) fn spent_quotas(&self, now: Time) -> LimitSet {
        let limits = (0..).map(LimitId).zip(&self.adaptive_limits);
        let spent = limits.filter(|(_, adaptive)| adaptive.spent_until(now).is_some()).map(|(limit, _)| limit);
        spent.fold(LimitSet::NONE, LimitSet::with)
    }

    /// Returns the spent quota that is the last to pay the bill again, and when. Stock that is held
    /// for the starts of `held` counts as unspent.
    pub(crate) fn last_spent_quota(
        &self,
        now: Time,
        bill: &Bill,
        held: impl Iterator<Item = StartKey> + Clone,
    ) -> Option<(Time, LimitId)> {
        let reset = |charge: Charge| Some((self.reset_of_spent(now, charge, held.clone())?, charge.limit));
        charges(bill).filter_map(reset).max()
    }

    /// Returns when the quota of `charge` can pay, if the upstream declared it spent or too little
    /// is left until its reset. A quota with a calendar is reset when the upstream says so, or by
    /// its calendar if that is earlier, even if a probe call asks sooner.
    fn reset_of_spent(&self, now: Time, charge: Charge, held: impl Iterator<Item = StartKey>) -> Option<Time> {
        let adaptive = self.adaptive(charge.limit);
        if let Some(until) = adaptive.spent_until(now) {
            let claimed = adaptive.bucket().freeze().and_then(|freeze| freeze.claim).map(|claim| claim.until);
            let ends = adaptive.bucket().window_state(adaptive.limit(), now).ends;
            return claimed.zip(ends).map(|(claimed, ends)| claimed.min(ends)).max(Some(until));
        }
        if !adaptive.limit().is_quota() {
            return None;
        }
        self.read(now, charge, |bucket, limit| {
            let cost = limit.start_cost(charge.amount, Tier::NO_HEADROOM);
            let level = bucket.level_without(limit, now, held) + bucket.returns(limit, now);
            let short = level < limit.demand(cost.credit, Tier::NO_HEADROOM);
            short.then(|| bucket.earliest(limit, now, cost))
        })
    }

    /// Returns the charges to quotas whose calls have cost less than they reserved.
    pub(crate) fn returnable_part(&self, now: Time, bill: &Bill) -> Bill {
        let returns = |charge: &Charge<'_>| {
            self.adaptive(charge.limit).limit().is_quota() && self.read(now, *charge, |bucket, _| bucket.may_return())
        };
        bill.part(charges(bill).filter(returns).fold(LimitSet::NONE, |set, charge| set.with(charge.limit)))
    }

    /// Expects the settle of a call whose cost is part of what buckets have recorded.
    pub(crate) fn expect_settle(&mut self, now: Time, key: StartKey, bill: &Bill) {
        for charge in charges(bill) {
            self.update(now, charge, |bucket, limit| {
                bucket.expect_settle(now, key, limit.start_cost(charge.amount, Tier::NO_HEADROOM).credit);
            });
        }
    }
}
