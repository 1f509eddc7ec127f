//! Buckets without keys in a snapshot.

use super::snapshot::{LevelSnapshot, StatedSnapshot};
use crate::ids::LimitId;
use crate::ledger::Backlog;
use crate::limits::{BucketRecord, ListedStarts, UsageBlock};
use crate::permits::Permit;
use crate::policy::{Limit, Resource};
use crate::scheduler::parts::RecordedParts;
use rampmeter_protocol::time::Time;

/// The promises that a snapshot lists one by one: those with the latest starts.
pub(crate) struct ListedPromises {
    /// The earliest listed start.
    first: Option<Time>,
    promised: Backlog,
}

impl ListedPromises {
    pub(crate) fn none(resource: &Resource) -> Self {
        ListedPromises { first: None, promised: Backlog::none(resource) }
    }

    /// The promises among these permits, which must be the permits with the latest starts.
    pub(crate) fn of<R>(resource: &Resource, now: Time, permits: &[(Time, &Permit<R>)]) -> Self {
        let mut listed = ListedPromises::none(resource);
        for (start, permit) in permits.iter().filter(|(start, permit)| *start > now && permit.granted().is_some()) {
            listed.first = Some(*start);
            listed.promised.add(resource, &permit.bill);
        }
        listed
    }

    fn of_limit(&self, limit: LimitId) -> ListedStarts {
        ListedStarts { first: self.first.unwrap_or(Time::NEVER), credit: self.promised.of(limit) }
    }
}

impl<R> RecordedParts<'_, R> {
    /// All levels, with every promise and the budget of each limit spent. Budgets are for starts
    /// between now and a near time.
    pub(crate) fn level_snapshots(
        &self,
        budgets: impl Iterator<Item = UsageBlock>,
        listed: &ListedPromises,
    ) -> Vec<LevelSnapshot> {
        let limits = self.resource.limits_by_id().zip(budgets).filter(|((_, limit), _)| !limit.is_keyed());
        limits.map(|((id, limit), budget)| self.level_snapshot(id, limit, budget, listed)).collect()
    }

    fn level_snapshot(
        &self,
        id: LimitId,
        limit: &Limit,
        granted: UsageBlock,
        listed: &ListedPromises,
    ) -> LevelSnapshot {
        let UsageBlock { from: now, credit: budget, .. } = granted;
        let adaptive = self.ledger.adaptive(id);
        // The reserve for measured jitter is left out, because a successor has not measured the
        // jitter yet.
        let level = adaptive.level(now) + adaptive.estimator().beyond_margin() - budget;
        let record = adaptive.bucket().record(limit, level, granted, listed.of_limit(id));
        LevelSnapshot {
            limit: limit.spec().name.clone(),
            micros: record.micros,
            usage: record.usage,
            learned: adaptive.estimator().snapshot(now),
            stated: adaptive.stated().map(|stated| StatedSnapshot {
                written: limit.spec().capacity,
                capacity: stated.capacity,
                age: now.since(stated.since),
            }),
            pending_debits: record.pending_debits,
        }
    }
}

impl LevelSnapshot {
    pub(crate) fn record(&self) -> BucketRecord {
        BucketRecord { micros: self.micros, pending_debits: self.pending_debits.clone(), usage: self.usage.clone() }
    }
}
