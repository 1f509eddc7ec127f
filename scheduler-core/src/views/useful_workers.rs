//! How many workers the limits can feed.

use crate::ids::LimitId;
use crate::policy::Limit;
use crate::scheduler::Scheduler;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// How many calls have started by `now` and were not settled. A call that is not settled while
    /// its permit is remembered counts until then.
    #[must_use]
    pub fn calls_in_flight(&self, now: Time) -> u64 {
        self.calls().in_flight().count(now)
    }

    /// How many workers of one call at a time use the scarcest limit up, by Little's law: the calls
    /// a second that the limit allows at `now`, times the mean time from start to settle. Calls
    /// cost as much as the latest ones have cost on average.
    ///
    /// Nothing before a call has been settled that a limit counts. Limits with keys do not count,
    /// because the number of keys has no bound. A quota without `pace` counts only while it is
    /// spent: it ends and sets no pace.
    #[must_use]
    pub fn useful_workers(&self, now: Time) -> Option<f64> {
        let limits = self.resource().limits_by_id().filter(|(_, limit)| !limit.is_keyed());
        limits.filter_map(|(id, limit)| self.fed_by(now, id, limit)).min_by(f64::total_cmp)
    }

    fn fed_by(&self, now: Time, id: LimitId, written: &Limit) -> Option<f64> {
        let (secs, cost) = self.calls().means(id).filter(|(_, cost)| *cost > 0.0)?;
        let adaptive = self.ledger().adaptive(id);
        if adaptive.spent_until(now).is_some() {
            return Some(0.0);
        }
        if written.is_quota() && !written.is_paced() {
            return None;
        }
        let (limit, period) = (&adaptive.limit, written.spec().period);
        let full = limit.rate().units(limit.full());
        match (limit.is_until_settled(), limit.has_tokens()) {
            (true, _) => Some(full / cost),
            (false, true) => Some(limit.rate().units(limit.rate().refill_within(period)) / period.secs() / cost * secs),
            (false, false) => Some(full / period.secs() / cost * secs),
        }
    }
}
