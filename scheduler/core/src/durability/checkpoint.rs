//! Checkpoints: states that the store must hold before permits are granted.

use super::limit_snapshots::ListedPromises;
use super::limit_snapshots::UnlistedFreezes;
use super::record_space::{MAX_FAR_KEYS, RecordSpace, encoded_key, keep_first};
use super::snapshot::{KeySnapshot, KeysSnapshot, Snapshot};
use crate::arithmetic::Credit;
use crate::fencing::{ImmediateDemand, KeyBudgets};
use crate::ids::{CheckpointNumber, ClassId, LimitId};
use crate::ledger::{Backlog, KeyBucket};
use crate::limits::{Bucket, NEAR, UsageBlock};
use crate::policy::Limit;
use crate::scheduler::Scheduler;
use rampmeter_protocol::time::Time;

/// A state for the store that counts everything which may be granted under it as spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// For [`Event::CheckpointStored`](crate::event::Event::CheckpointStored).
    pub number: CheckpointNumber,
    /// The state, without permits.
    pub state: Snapshot,
}

impl<R: Clone> Scheduler<R> {
    /// The checkpoint to write at `now`. None if the scheduler is not [fenced](Scheduler::fenced),
    /// or if too many checkpoints are unconfirmed.
    pub fn checkpoint(&mut self, now: Time) -> Option<Checkpoint> {
        self.advance(now);
        if !self.term.budget().may_open() {
            return None;
        }
        let mut space = self.record_space();
        let (freezes, unlisted) = self.freeze_snapshots(now, &mut space);
        let (new_pages, of_keys) = self.key_budgets(now, &mut space);
        let (key_budgets, listed) = of_keys.unzip();
        let immediate = self.immediate_demand(now);
        let number = self.term.budget().next();
        self.ledger.keys.pages.drop_empty(self.term.epoch(), number);
        let keys = self.fenced_keys(now, key_budgets.as_ref(), listed.unwrap_or_default(), space, &unlisted);
        let granted = self.term.budget_mut().open(
            &self.resource,
            now,
            self.permits.last_serial(),
            &immediate,
            key_budgets,
            new_pages.len(),
        );
        assert_eq!(granted.len(), self.resource.limits().len(), "each limit has a budget");
        let grants = granted.iter().map(|credit| UsageBlock { from: now, until: now + NEAR, credit: *credit });
        let levels = self.level_snapshots(grants, &ListedPromises::none(&self.resource));
        let state = Snapshot { levels, keys, freezes, new_pages, ..Snapshot::default() };
        Some(Checkpoint { number, state })
    }

    /// The keys of a checkpoint. `listed` keys have budgets. Keys with far promises count as empty
    /// until their last promise. Every other key counts as empty until near starts are past.
    fn fenced_keys(
        &self,
        now: Time,
        budgets: Option<&KeyBudgets>,
        mut listed: Vec<KeySnapshot>,
        mut space: RecordSpace,
        unlisted: &UnlistedFreezes,
    ) -> KeysSnapshot {
        let limits = self.resource.limits();
        let pages = budgets.and_then(|budgets| self.key_pages(now, &mut space, |id| budgets.of_unlisted(id)));
        let budgets = budgets.filter(|_| pages.is_some());
        let has_budget = |limit: LimitId| budgets.filter(|_| limits[limit.index()].lists_keys());
        // The first key beyond the list bounds how long all other keys stay empty.
        let far_debts = |are_listed| self.ledger.keys.far_debts(now, are_listed).take(MAX_FAR_KEYS + 1);
        let mut far: Vec<_> = far_debts(false).collect();
        if budgets.is_none() {
            far.extend(far_debts(true));
            keep_first(&mut far, MAX_FAR_KEYS + 1, |(one, _), (other, _)| other.cmp(one));
        }
        let snapshot = |(until, known): &(Time, &KeyBucket)| {
            let limit = &limits[known.limit.index()];
            KeySnapshot::of(limit, &known.key, &Bucket::empty_until(limit, now, *until), now, Credit::ZERO)
        };
        let snapshots = space.fitting(1, MAX_FAR_KEYS, far.iter().map(snapshot), encoded_key);
        let others = far.get(snapshots.len()).map_or(now + NEAR, |(until, _)| *until);
        assert!(others >= now + NEAR, "other keys stay empty until near starts are past");
        listed.extend(snapshots);
        self.keys_snapshot(
            now,
            listed,
            pages.unwrap_or_default(),
            Some(others),
            |limit| has_budget(limit).map(|budgets| budgets.of_unlisted(limit)),
            unlisted,
        )
    }

    fn immediate_demand(&self, now: Time) -> Vec<ImmediateDemand> {
        let mut pending = Backlog::none(&self.resource);
        self.pending.bills().for_each(|bill| pending.add(&self.resource, bill));
        let immediate = |(id, _)| {
            let adaptive = self.ledger.adaptive(id);
            let level = self.near_level(now, adaptive.limit(), adaptive.bucket());
            ImmediateDemand { wanted: pending.of(id) + self.startable(id, level), level }
        };
        self.resource.limits_by_id().map(immediate).collect()
    }

    /// The level of a bucket for near starts.
    pub(crate) fn near_level(&self, now: Time, limit: &Limit, bucket: &Bucket) -> Credit {
        // A window's next amount needs a checkpoint shortly before it comes, not earlier.
        let soon = self.resource.spec().horizon + self.resource.spec().reservation;
        bucket.near_level(limit, now, soon)
    }

    /// The amount that waiting requests could take of a limit at this level, with headrooms.
    fn startable(&self, id: LimitId, level: Credit) -> Credit {
        let limit = &self.resource[id];
        let of_class = |class: ClassId| {
            let stock = (level - limit.headroom(self.resource.tier(class))).max(Credit::ZERO);
            self.queues.backlog_through(&self.resource, class).of(id).min(stock)
        };
        let classes =
            self.resource.classes_by_id().map(|(id, _)| id).filter(|id| !self.queues.class(*id).has_no_turns());
        classes.map(of_class).max().unwrap_or(Credit::ZERO)
    }
}
