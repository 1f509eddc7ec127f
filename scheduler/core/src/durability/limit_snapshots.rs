//! Limits in a snapshot: the buckets without keys, freezes and spent quotas.

use super::record_space::{RecordSpace, encoded};
use super::snapshot::{FreezeSnapshot, LevelSnapshot};
use crate::ids::LimitId;
use crate::ledger::Backlog;
use crate::limits::{BucketRecord, ListedStarts, UsageBlock};
use crate::permits::Permit;
use crate::policy::{Limit, Resource};
use crate::scheduler::Scheduler;
use rampmeter_protocol::time::Time;
use std::collections::BTreeSet;

/// The freezes of keys get one part in this many of a record.
const FREEZES_PART: usize = 8;
/// How many freezes without room are looked at for their limits. If there are more, all limits with
/// keys count as theirs.
const MAX_FREEZES_EXAMINED: usize = 4_000;

/// The freezes of keys that a record has no room for. Until the last of them ends, all listed keys
/// of their limits count as frozen, and unlisted ones as empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnlistedFreezes {
    /// The end of the last one; none if every freeze is listed.
    pub(crate) until: Option<Time>,
    pub(crate) limits: BTreeSet<LimitId>,
}

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

    /// The promises among these permits, which must be those with the latest starts.
    pub(crate) fn of<R>(resource: &Resource, now: Time, permits: &[&Permit<R>]) -> Self {
        let mut listed = ListedPromises::none(resource);
        for permit in permits {
            if let Some(granted) = permit.granted().filter(|granted| granted.is_promised(now)) {
                listed.first = Some(granted.start.at);
                listed.promised.add(resource, &permit.bill);
            }
        }
        listed
    }

    fn of_limit(&self, limit: LimitId) -> ListedStarts {
        ListedStarts { first: self.first.unwrap_or(Time::NEVER), credit: self.promised.of(limit) }
    }
}

impl<R: Clone> Scheduler<R> {
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
        let level = adaptive.level(now) - budget;
        let record = adaptive.bucket().record(limit, level, granted, listed.of_limit(id));
        LevelSnapshot {
            limit: limit.spec().name.clone(),
            micros: record.stored_micros(),
            budget: limit.rate().micros_up(budget),
            pending_debits: record.pending_debits,
            usage: record.usage,
            rooms: record.rooms,
        }
    }

    /// What a record has for keys and their freezes.
    pub(crate) fn record_space(&self) -> RecordSpace {
        RecordSpace::of(self.term.record_bytes(), self.resource.limits().len())
    }

    /// All freezes that no served probe has ended, and all spent quotas. Those of keys come last;
    /// what has no room is told apart.
    pub(crate) fn freeze_snapshots(
        &mut self,
        now: Time,
        space: &mut RecordSpace,
    ) -> (Vec<FreezeSnapshot>, UnlistedFreezes) {
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
        let mut freezes: Vec<FreezeSnapshot> = shared.collect();
        let keys = self.ledger.keys.frozen(now);
        let keyed = keys.map(|(until, known)| snapshot(&self.resource[known.limit], Some(&*known.key), until, false));
        let keyed = space.fitting(FREEZES_PART, usize::MAX, keyed, encoded);
        let unlisted = self.freezes_after(now, keyed.len());
        freezes.extend(keyed);
        let all = |limit: &LimitId| snapshot(&self.resource[*limit], None, unlisted.until.unwrap_or(now), false);
        freezes.extend(unlisted.limits.iter().map(all));
        (freezes, unlisted)
    }

    /// The freezes of keys after the `first` ones, of which those that end last come first.
    fn freezes_after(&mut self, now: Time, first: usize) -> UnlistedFreezes {
        let mut rest = self.ledger.keys.frozen(now).skip(first);
        let mut unlisted = UnlistedFreezes::default();
        for (until, known) in rest.by_ref().take(MAX_FREEZES_EXAMINED) {
            unlisted.until = unlisted.until.max(Some(until));
            unlisted.limits.insert(known.limit);
        }
        if rest.next().is_some() {
            unlisted.limits.extend(self.resource.keyed_limits());
        }
        unlisted
    }
}

impl LevelSnapshot {
    pub(crate) fn record(&self) -> BucketRecord {
        BucketRecord {
            micros: self.micros.into(),
            pending_debits: self.pending_debits.clone(),
            usage: self.usage.clone(),
            rooms: self.rooms.clone(),
        }
    }
}
