//! What is left for those who come after a call.

use crate::bucket::Bucket;
use crate::credit::Credit;
use crate::limit::Limit;
use crate::scheduler::Scheduler;
use crate::timeline::Draw;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::left::Left;
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// What is left at `now` of each limit that the permit `id` is charged to, those with keys last; nothing for a permit that nobody
    /// knows. Others may have it in the next moment: it is news for people, and no promise. `now` must not be before the last event.
    #[must_use]
    pub fn left(&mut self, now: Time, id: &PermitId) -> Vec<Left<'static>> {
        self.ledger.advance(now);
        let Some(slot) = self.permits.find(id) else { return Vec::new() };
        self.ledger.survey(now, &self.permits.get(slot).bill, |bucket, limit| left(bucket, limit, now)).collect()
    }
}

/// What could be spent at `now`, and how long it takes to fill the bucket up again.
fn left(bucket: &Bucket, limit: &Limit, now: Time) -> Left<'static> {
    let full = bucket.paid_behind(limit, now, Credit::ZERO, Draw { cost: limit.full(), tier: 0 });
    let comes_back = full < Time::NEVER && !limit.is_until_settled();
    Left {
        limit: Text::from(limit.spec().name.to_string()),
        unit: Text::from(limit.spec().unit.to_string()),
        remaining: limit.rate().units(bucket.level(limit, now).max(Credit::ZERO)),
        reset_ms: comes_back.then(|| full.since(now).millis()),
    }
}
