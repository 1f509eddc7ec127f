//! Buckets, freezes and spent quotas in a snapshot, with the keys of limits with long periods.
//!
//! A million keys may change between two checkpoints, so one can't contain all. A successor takes
//! unknown keys for empty; those of a limit with a long period would stay so for weeks.
//!
//! So a checkpoint lists the keys of such limits that are in use, each with its own budget, and
//! refers to the [pages](crate::ledger::key_pages) that record keys at rest. An unlisted key has a
//! budget of one call, if that is a small part of its bucket.

use crate::collections::Slot;
use crate::durability::snapshot::{
    FreezeSnapshot, KeyPage, KeySnapshot, KeysSnapshot, LevelSnapshot, MAX_PAGE_KEYS, MAX_UNPAGED_KEYS, NewPage,
    OtherKeysSnapshot, RateSnapshot, RecordSpace, encoded, encoded_key,
};
use crate::fencing::{KeyBudgets, long_charges};
use crate::ledger::PageState;
use crate::limits::{Bucket, StartKey, UsageBlock};
use crate::offset::Offset;
use crate::scheduler::Scheduler;
use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::spec::LimitSpec;
use rampmeter_policy::{KeyName, Limit};
use rampmeter_protocol::time::Time;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The freezes of keys get one part in this many of a record.
const FREEZES_PART: usize = 8;

impl<R: Clone> Scheduler<R> {
    /// Returns all levels, with every promise and the budget of each limit spent. Budgets are for
    /// starts from now until a near time. Promises from `listed` on are listed one by one.
    pub(crate) fn level_snapshots(
        &self,
        budgets: impl Iterator<Item = UsageBlock>,
        listed: StartKey,
    ) -> Vec<LevelSnapshot> {
        let limits = self.resource.limits_by_id().zip(budgets).filter(|((_, limit), _)| !limit.is_keyed());
        let level_snapshot = |((id, limit), granted): ((LimitId, &Limit), UsageBlock)| {
            let adaptive = self.ledger.adaptive(id);
            let level = adaptive.level(granted.from) - granted.credit;
            let record = adaptive.bucket().record(limit, level, granted, listed);
            LevelSnapshot {
                limit: limit.spec().name.clone(),
                micros: record.stored_micros(),
                budget: limit.rate().micros_up(granted.credit),
                pending_debits: record.pending_debits,
                usage: record.usage,
                rooms: record.rooms,
            }
        };
        limits.map(level_snapshot).collect()
    }

    pub(crate) fn record_space(&self) -> RecordSpace {
        RecordSpace::of(self.term.record_bytes, self.resource.limits().len())
    }

    /// Returns all freezes that no served probe has ended, and all spent quotas. If those of keys
    /// have no room, also returns when the last of the others ends. Until then, all known keys
    /// count as frozen, and the caller has to leave all other keys empty.
    pub(crate) fn freeze_snapshots(
        &mut self,
        now: Time,
        space: &mut RecordSpace,
    ) -> (Vec<FreezeSnapshot>, Option<Time>) {
        let snapshot = |limit: &Limit, key: Option<&str>, until: Time, spent: bool| {
            let (limit, key) = (limit.spec().name.clone(), key.map(str::to_owned));
            FreezeSnapshot { limit, key, ends_in: until.since(now), spent, ordered: false }
        };
        let shared = self.ledger.adaptive_limits.iter().flat_map(|adaptive| {
            let frozen = adaptive.bucket().freeze().map(|freeze| FreezeSnapshot {
                ordered: freeze.is_ordered,
                ..snapshot(adaptive.limit(), None, freeze.until, false)
            });
            let spent = adaptive.spent_until(now).map(|until| snapshot(adaptive.limit(), None, until, true));
            frozen.into_iter().chain(spent)
        });
        let mut freezes: Vec<FreezeSnapshot> = shared.collect();
        let keys = self.ledger.keys.frozen(now);
        let keyed = keys.map(|(until, known)| snapshot(&self.resource[known.limit], Some(&*known.key), until, false));
        let keyed = space.fitting(FREEZES_PART, usize::MAX, keyed, encoded);
        let unlisted = self.ledger.keys.frozen(now).nth(keyed.len()).map(|(until, _)| until);
        freezes.extend(keyed);
        let all = |until| self.resource.keyed_limits().map(move |limit| (limit, until));
        let all = unlisted.into_iter().flat_map(all);
        freezes.extend(all.map(|(limit, until)| snapshot(&self.resource[limit], None, until, false)));
        (freezes, unlisted)
    }
}

/// The largest number of keys that one checkpoint examines: the keys of a page, and as many again.
/// While more are in use, as after a change of limits, a successor takes unlisted keys for empty.
const MAX_EXAMINED: usize = 2 * MAX_PAGE_KEYS;
/// The number of first requests of the class queues that get a budget for their keys.
const MAX_FIRST_REQUESTS: usize = 64;
/// The number of requests that count for each key that waits for a budget.
const MAX_FIRST_OF_KEY: usize = 4;
/// An unlisted key's budget is at most one part in this many, because a crash loses it.
const UNLISTED_PART: u64 = 16;

impl<R: Clone> Scheduler<R> {
    /// Returns a checkpoint's new pages, with key budgets and snapshots unless keys are too many.
    pub(crate) fn key_budgets(
        &mut self,
        now: Time,
        space: &mut RecordSpace,
    ) -> (Vec<NewPage>, Option<(KeyBudgets, Vec<KeySnapshot>)>) {
        if !self.resource.limits().iter().any(Limit::lists_keys) {
            return (Vec::new(), None);
        }
        if self.ledger.keys.count_in_use() < MAX_UNPAGED_KEYS {
            self.ledger.keys.reuse_sparse_page();
        }
        let wanted = self.demand_for_keys();
        let mut demand = wanted.clone();
        let used = self.ledger.keys.in_use(now, MAX_EXAMINED);
        let are_all = used.len() == self.ledger.keys.count_in_use();
        let (latest, fades) = (self.term.budget.key_budgets(), self.term.budget.fades(now));
        for name in used {
            let expected = latest.map_or(Credit::ZERO, |latest| latest.expected(&self.resource, &name, fades));
            demand.entry(name).and_modify(|budget| *budget = expected.max(*budget)).or_insert(expected);
        }
        let pages = self.write_pages(now, 1, &mut demand, &wanted);
        (pages, if are_all { self.listable(now, demand, space) } else { None })
    }

    pub(crate) fn write_pages(
        &mut self,
        now: Time,
        most: usize,
        demand: &mut BTreeMap<KeyName, Credit>,
        wanted: &BTreeMap<KeyName, Credit>,
    ) -> Vec<NewPage> {
        let mut pages = Vec::new();
        if demand.len() <= MAX_UNPAGED_KEYS {
            return pages;
        }
        let resting = self.least_demanded(demand, wanted);
        let mut resting = &resting[..];
        // A single page suffices if the checkpoint has room for the rest.
        while !resting.is_empty() && pages.len() < most && (pages.is_empty() || demand.len() > MAX_PAGE_KEYS) {
            let snapshots = resting.iter().map(|(name, _)| self.listed_key(now, name, Credit::ZERO));
            let keys = self.record_space().fitting(1, MAX_PAGE_KEYS, snapshots, encoded_key);
            assert!(keys.len() <= resting.len(), "a page has only keys at rest");
            let (paged, rest) = resting.split_at(keys.len());
            resting = rest;
            for (name, _) in paged {
                demand.remove(name);
            }
            let stored = self.term.budget.confirmed;
            let id = self.ledger.keys.pages.next_id(self.term.epoch(), stored);
            let nothing = vec![Credit::ZERO; self.resource.limits().len()];
            self.ledger.keys.add_page(id, now, nothing, paged.iter().map(|(_, slot)| *slot).collect());
            pages.push(NewPage { id, keys });
        }
        pages
    }

    /// Returns keys that are on no page, the least demanded first. A page counts the stock of a key
    /// with promises as spent until the last of these, and gives `wanted` keys no budget. Such keys
    /// therefore come last, and only if the checkpoint has no room for them.
    fn least_demanded(
        &self,
        demand: &BTreeMap<KeyName, Credit>,
        wanted: &BTreeMap<KeyName, Credit>,
    ) -> Vec<(KeyName, Slot)> {
        let rank = |(name, budget): (&KeyName, &Credit)| {
            let slot = self.ledger.keys.find(name.limit, &name.key)?;
            let known = self.ledger.keys.get(slot).filter(|known| known.page.is_none())?;
            let is_needed = known.bucket().last_promise().is_some() || wanted.contains_key(name);
            Some(((is_needed, *budget, slot), name.clone()))
        };
        let mut least: Vec<_> = demand.iter().filter_map(rank).collect();
        least.retain(|((is_needed, ..), _)| !is_needed || demand.len() > MAX_PAGE_KEYS);
        least.sort_by_key(|(rank, _)| *rank);
        least.into_iter().map(|((.., slot), name)| (name, slot)).collect()
    }

    /// Returns the key budgets and snapshots of a checkpoint; `None` if there are too many.
    fn listable(
        &self,
        now: Time,
        demand: BTreeMap<KeyName, Credit>,
        space: &mut RecordSpace,
    ) -> Option<(KeyBudgets, Vec<KeySnapshot>)> {
        if demand.len() > MAX_PAGE_KEYS {
            return None;
        }
        let limits = self.resource.limits();
        let unlisted: Vec<Credit> = limits.iter().zip(&self.term.budget.largest).map(unlisted_budget).collect();
        let budget = |(name, demand): (KeyName, Credit)| {
            // A larger budget could not be used, and a crash would lose it.
            let level = self.near_level(now, &limits[name.limit.index()], &self.key_bucket(now, &name));
            let budget = unlisted[name.limit.index()].max(demand).min(level.max(Credit::ZERO));
            (name, budget)
        };
        let budgets: Vec<(KeyName, Credit)> = demand.into_iter().map(budget).collect();
        let snapshots = budgets.iter().map(|(name, budget)| self.listed_key(now, name, *budget));
        let snapshots = space.fitting(2, MAX_PAGE_KEYS, snapshots, encoded_key);
        if snapshots.len() < budgets.len() {
            return None;
        }
        assert_eq!(unlisted.len(), limits.len(), "each limit has a budget for unlisted keys");
        Some((KeyBudgets::new(budgets, unlisted), snapshots))
    }

    /// Returns the demand for each key by pending requests, by requests in the queues of keys that
    /// wait for a budget, and by the first requests in the queues of classes.
    fn demand_for_keys(&self) -> BTreeMap<KeyName, Credit> {
        let classes = self.queues.classes().iter();
        let first = classes.flat_map(|queue| queue.order.front(MAX_FIRST_REQUESTS)).take(MAX_FIRST_REQUESTS);
        let at_keys = self.queues.keys.next_for_budget().filter_map(|key| self.queues.keys.get(key));
        let at_keys = at_keys.flat_map(|queue| queue.iter().take(MAX_FIRST_OF_KEY));
        let at_keys = at_keys.map(|slot| &*self.permits.get(slot).bill);
        let bills = first.map(|(_, bill)| bill).chain(at_keys);
        let mut demand = BTreeMap::new();
        for charge in bills.chain(self.pending.bills()).flat_map(|bill| long_charges(&self.resource, bill)) {
            *demand.entry(charge.name()).or_insert(Credit::ZERO) += self.resource.credit(charge.limit, charge.amount);
        }
        demand
    }

    fn listed_key(&self, now: Time, name: &KeyName, budget: Credit) -> KeySnapshot {
        KeySnapshot::of(&self.resource[name.limit], &name.key, &self.key_bucket(now, name), now, budget)
    }

    /// Assembles the keys of a snapshot: `listed` keys, `pages`, and the budget of all other keys
    /// by limit. Other keys without an `allowed` budget are empty until `empty`.
    pub(crate) fn keys_snapshot(
        &self,
        now: Time,
        listed: Vec<KeySnapshot>,
        pages: Vec<KeyPage>,
        empty: Option<Time>,
        allowed: impl Fn(LimitId) -> Option<Credit>,
    ) -> KeysSnapshot {
        let (known, unknown): (Vec<LimitId>, Vec<LimitId>) =
            self.resource.keyed_limits().partition(|limit| allowed(*limit).is_some());
        let known = known.into_iter().map(|limit| self.other_keys(now, limit, allowed(limit).unwrap_or_default()));
        // Keys that a predecessor left empty stay empty for a successor, too.
        let begins = unknown.into_iter().filter_map(|limit| self.ledger.keys.empty_at(now, limit)).max();
        let others_empty_in = empty.max(begins).map(|time| Offset::between(now, time));
        let rates = if listed.is_empty() && pages.is_empty() { Vec::new() } else { self.key_rates() };
        KeysSnapshot { listed, known: known.collect(), others_empty_in, rates, pages }
    }

    fn key_rates(&self) -> Vec<RateSnapshot> {
        let rate = |id: LimitId| {
            let LimitSpec { name, capacity, period, .. } = self.resource[id].spec();
            RateSnapshot { limit: name.clone(), capacity_micros: capacity.micros(), period: *period }
        };
        self.resource.keyed_limits().map(rate).collect()
    }

    /// Refers to all pages, whose keys may be granted `allowed` each; `None` if they have no room.
    pub(crate) fn key_pages(
        &self,
        now: Time,
        space: &mut RecordSpace,
        allowed: impl Fn(LimitId) -> Credit,
    ) -> Option<Vec<KeyPage>> {
        let spent = |page: &PageState, (id, limit): (LimitId, &Limit)| {
            (limit.spec().name.clone(), limit.rate().micros_up(page.granted_since[id.index()] + allowed(id)))
        };
        let long = || self.resource.limits_by_id().filter(|(_, limit)| limit.lists_keys());
        let page = |page: &PageState| KeyPage {
            id: page.id,
            age: now.since(page.as_of),
            spent: long().map(|each| spent(page, each)).collect(),
            keys: None,
        };
        let pages = space.fitting(2, usize::MAX, self.ledger.keys.pages.iter().map(page), encoded);
        (pages.len() == self.ledger.keys.pages.iter().count()).then_some(pages)
    }

    fn other_keys(&self, now: Time, limit: LimitId, budget: Credit) -> OtherKeysSnapshot {
        let fresh = self.ledger.keys.absent(limit, now);
        let limit = &self.resource[limit];
        let record = fresh.key_record(limit, now, budget);
        OtherKeysSnapshot { limit: limit.spec().name.clone(), micros: record.stored_micros(), usage: record.usage }
    }

    fn key_bucket(&self, now: Time, name: &KeyName) -> Cow<'_, Bucket> {
        self.ledger.keys.bucket(now, name.limit, &name.key).0
    }
}

impl KeySnapshot {
    pub(crate) fn of(limit: &Limit, key: &str, bucket: &Bucket, now: Time, budget: Credit) -> Self {
        let record = bucket.key_record(limit, now, budget);
        let limit = limit.spec().name.clone();
        KeySnapshot { limit, key: key.to_owned(), micros: record.stored_micros(), usage: record.usage }
    }
}

/// Returns the budget of an unlisted key: the largest recent call, if a small part, or a place.
fn unlisted_budget((limit, largest): (&Limit, &Credit)) -> Credit {
    let is_small = *largest <= limit.full().divided_by(UNLISTED_PART) && !limit.is_scarce();
    if is_small || limit.counts_calls_in_flight() { (*largest).min(limit.full()) } else { Credit::ZERO }
}
