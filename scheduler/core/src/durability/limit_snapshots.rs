//! Limits in a snapshot: the buckets without keys, freezes and spent quotas.

use super::snapshot::{FreezeSnapshot, LevelSnapshot, StatedSnapshot};
use crate::ids::LimitId;
use crate::ledger::Backlog;
use crate::limits::{BucketRecord, ListedStarts, UsageBlock};
use crate::permits::Permit;
use crate::policy::{Limit, Resource};
use crate::scheduler::parts::RecordedParts;
use rampmeter_protocol::time::Time;

/// The largest number of key freezes in a snapshot; those that end last are kept.
const MAX_FREEZES: usize = 256;

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
            micros: record.stored_micros(),
            budget: limit.rate().micros_up(budget),
            pending_debits: record.pending_debits,
            usage: record.usage,
            learned: adaptive.estimator().snapshot(now),
            stated: adaptive.stated().map(|stated| StatedSnapshot {
                written_micros: limit.spec().capacity.micros(),
                capacity_micros: stated.capacity.micros(),
                age: now.since(stated.since),
            }),
        }
    }
    /// All freezes that no served probe has ended, and all spent quotas.
    pub(crate) fn freeze_snapshots(&mut self, now: Time) -> Vec<FreezeSnapshot> {
        let snapshot = |limit: &Limit, key: Option<&str>, until: Time, spent: bool| {
            let (limit, key) = (limit.spec().name.clone(), key.map(str::to_owned));
            FreezeSnapshot { limit, key, ends_in: until.since(now), spent, ordered: false }
        };
        let shared = self.ledger.adaptive_limits().flat_map(|adaptive| {
            let frozen = adaptive.bucket().freeze().map(|freeze| FreezeSnapshot {
                ordered: freeze.is_ordered(),
                ..snapshot(adaptive.limit(), None, freeze.until(), false)
            });
            let spent = adaptive.spent_until(now).map(|until| snapshot(adaptive.limit(), None, until, true));
            frozen.into_iter().chain(spent)
        });
        let shared: Vec<FreezeSnapshot> = shared.collect();
        let keys = self.ledger.keys.frozen(now).take(MAX_FREEZES);
        let keyed = keys.map(|(until, known)| snapshot(&self.resource[known.limit], Some(&*known.key), until, false));
        shared.into_iter().chain(keyed).collect()
    }
}

impl LevelSnapshot {
    pub(crate) fn record(&self) -> BucketRecord {
        BucketRecord {
            micros: self.micros.into(),
            pending_debits: self.pending_debits.clone(),
            usage: self.usage.clone(),
        }
    }
}
