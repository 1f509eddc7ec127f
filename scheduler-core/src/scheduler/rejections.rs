//! Why the upstream rejects calls, as far as the buckets tell.

use super::Scheduler;
use crate::adaptation::{Attribution, Observation, Verdict};
use crate::arithmetic::Credit;
use crate::ids::LimitId;
use crate::permits::Granted;
use crate::policy::Bill;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::status::RejectionCause;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// Counts a call that the upstream answered with 429. The buckets must not have learned of it.
    pub(crate) fn count_rejection(&mut self, now: Time, id: &PermitId, observation: Option<&Observation>) {
        let cause = self.rejection_cause(now, id, observation);
        self.counters.upstream_429 += 1;
        self.counters.rejections.count(cause);
    }

    fn rejection_cause(&self, now: Time, id: &PermitId, observation: Option<&Observation>) -> RejectionCause {
        let permit = self.permits.find(id).map(|slot| self.permits.get(slot));
        let call = permit.and_then(|permit| Some((permit, permit.granted().filter(Granted::is_open)?)));
        let (Some((permit, granted)), Some(observation)) = (call, observation) else {
            return RejectionCause::Unknown;
        };
        match &observation.verdict {
            Verdict::Passed => RejectionCause::Unknown,
            Verdict::Busy | Verdict::Limited { by_other_accounts: true, .. } => RejectionCause::Upstream,
            Verdict::Exhausted { .. } => RejectionCause::Quota,
            Verdict::Limited { scope, by_other_accounts: false, .. } => {
                let at = granted.start.at.min(now);
                let blamed = Attribution::new(&self.resource, &permit.bill).blamed(scope);
                let is_ours = blamed.iter().any(|limit| self.is_short(now, at, &permit.bill, *limit));
                if is_ours { RejectionCause::Ours } else { RejectionCause::Strangers }
            }
        }
    }

    /// Whether the bucket in which `bill` is charged to `limit` had too little for a call at `at`,
    /// as far as is known.
    fn is_short(&self, now: Time, at: Time, bill: &Bill, limit: LimitId) -> bool {
        match bill.key_charge(limit) {
            None => self.ledger.adaptive(limit).slack(at, bill.get(limit)) < 0,
            Some(_) => {
                let only = bill.only(limit);
                let mut levels = self.ledger.read_each(now, &only, |bucket, limit| bucket.level(limit, now));
                levels.any(|level| level < Credit::ZERO)
            }
        }
    }
}
