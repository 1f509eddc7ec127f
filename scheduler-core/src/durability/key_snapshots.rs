//! Keys of long limits, one by one.
//!
//! A million keys may change between two checkpoints, so that a checkpoint does not have them all, and a successor takes those that it does not know for
//! empty. Of a limit whose period is long that would be for hours, or until next month. So a checkpoint lists the keys of such limits that are
//! in use, each with a budget of its own, and names the [pages](crate::durability::key_pages) that tell of those at rest. A key that is not listed
//! may be granted a call before a checkpoint lists it, where that is a small part of what it has.

use super::record_space::{HALF, MANY_IN_USE, MOST_ON_PAGE, ROOM, fitting};
use super::snapshot::{KeyPage, KeySnapshot, KeysSnapshot, LevelSnapshot, NewPage};
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::fencing::{GrantBudget, KeyBudgets, credit, long};
use crate::ids::LimitId;
use crate::ledger::{NEAR, Page};
use crate::limits::{Bucket, Usage, UsageBlock, distance};
use crate::policy::{KeyName, Limit};
use crate::scheduler::Scheduler;
use rampmeter_protocol::time::Time;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Most keys that one checkpoint looks at, those of a page and as many again. While more are in use, as after a change of limits, a
/// successor takes keys for empty.
const MOST_LOOKED_AT: usize = 2 * MOST_ON_PAGE;
/// Those first in line for whom there is to be a budget.
const MOST_IN_LINE: usize = 64;
/// A call takes at most one part in this many of a bucket to be allowed to every key: so much is lost with whoever leads.
const SMALL_PART: u64 = 16;

impl<R: Clone> Scheduler<R> {
    /// The pages that are to be written before a checkpoint, and what that is to tell and to allow of keys; nothing where there are too many.
    pub(crate) fn key_budgets(&mut self, now: Time) -> (Vec<NewPage>, Option<(KeyBudgets, Vec<KeySnapshot>)>) {
        if !self.resource.limits().iter().any(Limit::lists_keys) {
            return (Vec::new(), None);
        }
        if self.ledger.keys.in_use.len() < MANY_IN_USE {
            self.ledger.keys.reuse_sparse_page();
        }
        let mut wanted = self.wanted_of_keys();
        let used = self.ledger.keys.keys_in_use(now, MOST_LOOKED_AT);
        let are_all = used.len() == self.ledger.keys.in_use.len();
        let latest = self.grant_budget.as_ref().and_then(GrantBudget::key_budgets);
        for name in used {
            let expected = latest.map_or(Credit::ZERO, |latest| latest.expected(&self.resource, &name));
            wanted.entry(name).and_modify(|budget| *budget = expected.max(*budget)).or_insert(expected);
        }
        let pages = self.turn_pages(now, 1, &mut wanted);
        (pages, if are_all { self.listable(now, wanted) } else { None })
    }

    /// All keys of long limits that no page tells of, as many as fit, on pages: nothing is granted any more.
    pub(crate) fn turn_all_pages(&mut self, now: Time) -> Vec<NewPage> {
        let used = self.ledger.keys.keys_in_use(now, usize::MAX);
        let mut used = used.into_iter().map(|name| (name, Credit::ZERO)).collect();
        self.turn_pages(now, usize::MAX, &mut used)
    }

    /// Writes those of too many keys that are wanted least to pages, until the others can be listed.
    fn turn_pages(&mut self, now: Time, most: usize, wanted: &mut BTreeMap<KeyName, Credit>) -> Vec<NewPage> {
        let mut pages = Vec::new();
        if wanted.len() <= MANY_IN_USE {
            return pages;
        }
        let resting = self.least_wanted(wanted);
        let mut resting = &resting[..];
        // One page is enough where the checkpoint has room for all others.
        while !resting.is_empty() && pages.len() < most && (pages.is_empty() || wanted.len() > MOST_ON_PAGE) {
            let marks = resting.iter().map(|(name, _)| self.listed_key(now, name, Credit::ZERO));
            let keys = fitting(MOST_ON_PAGE, ROOM, marks);
            let (told, rest) = resting.split_at(keys.len());
            resting = rest;
            for (name, _) in told {
                wanted.remove(name);
            }
            let stored = self.grant_budget.as_ref().map(GrantBudget::confirmed).unwrap_or_default();
            let id = self.ledger.keys.pages.next_id(self.epoch, stored);
            let nothing = vec![Credit::ZERO; self.resource.limits().len()];
            self.ledger.keys.add_page((id, now, nothing), told.iter().map(|(_, slot)| *slot).collect());
            pages.push(NewPage { id, keys });
        }
        pages
    }

    /// Keys that no page tells of, those that are wanted least first. A page tells little of keys with promises, which take the stock of
    /// all the time until then: they come last, and only if the checkpoint has no room for them.
    fn least_wanted(&self, wanted: &BTreeMap<KeyName, Credit>) -> Vec<(KeyName, Slot)> {
        let keys = &self.ledger.keys;
        let rank = |(name, budget): (&KeyName, &Credit)| {
            let slot = keys.find(name.0, &name.1)?;
            let known = keys.get(slot).filter(|known| known.page.is_none())?;
            Some(((known.bucket.last_promise().is_some(), *budget, slot), name.clone()))
        };
        let mut least: Vec<_> = wanted.iter().filter_map(rank).collect();
        least.retain(|((has_promises, ..), _)| !has_promises || wanted.len() > MOST_ON_PAGE);
        least.sort_by_key(|(rank, _)| *rank);
        least.into_iter().map(|((.., slot), name)| (name, slot)).collect()
    }

    /// What a checkpoint tells and allows of keys; nothing where there are too many.
    fn listable(&self, now: Time, wanted: BTreeMap<KeyName, Credit>) -> Option<(KeyBudgets, Vec<KeySnapshot>)> {
        if wanted.len() > MOST_ON_PAGE {
            return None;
        }
        let limits = self.resource.limits();
        let others: Vec<Credit> = limits.iter().zip(self.grant_budget.as_ref()?.largest()).map(small).collect();
        let budget = |(name, wanted): (KeyName, Credit)| {
            // More than there is can't be granted, and would be lost with whoever leads.
            let level = self.near_level(now, &limits[name.0.index()], &self.key_bucket(now, &name));
            let budget = others[name.0.index()].max(wanted).min(level.max(Credit::ZERO));
            (name, budget)
        };
        let budgets: Vec<(KeyName, Credit)> = wanted.into_iter().map(budget).collect();
        let marks = budgets.iter().map(|(name, budget)| self.listed_key(now, name, *budget));
        let marks = fitting(MOST_ON_PAGE, HALF, marks);
        if marks.len() < budgets.len() {
            return None;
        }
        Some((KeyBudgets::new(budgets, others), marks))
    }

    /// What those who are held, and the first in line, want of each key.
    fn wanted_of_keys(&self) -> BTreeMap<KeyName, Credit> {
        let in_line =
            self.queues.classes().iter().flat_map(|queue| queue.order().front(MOST_IN_LINE)).take(MOST_IN_LINE);
        let bills = in_line.map(|(_, bill)| bill);
        let mut wanted = BTreeMap::new();
        for charge in bills.chain(self.pending_bills()).flat_map(|bill| long(&self.resource, bill)) {
            *wanted.entry(charge.name()).or_insert(Credit::ZERO) += credit(&self.resource, charge);
        }
        wanted
    }

    /// What a successor is to know of a key that has this budget.
    fn listed_key(&self, now: Time, name: &KeyName, budget: Credit) -> KeySnapshot {
        KeySnapshot::of(&self.resource.limits()[name.0.index()], &name.1, &self.key_bucket(now, name), now, budget)
    }

    /// What a successor is to know of keys: `listed`; pages; and of others what each may be `allowed` beyond what it has, where that
    /// is known. Where it is not, they are empty until `empty`.
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
        // As long as the keys of a predecessor are empty, so are those of a successor.
        let begins = unknown.into_iter().filter_map(|limit| self.ledger.keys.empty_at(now, limit)).max();
        let others_empty_in = empty.max(begins).map(|time| distance(now, time));
        KeysSnapshot { listed, known: known.collect(), others_empty_in, pages }
    }

    /// The pages that tell of keys at rest, each of which may be granted as much as `allowed`.
    pub(crate) fn key_pages(&self, now: Time, allowed: impl Fn(LimitId) -> Credit) -> Vec<KeyPage> {
        let spent = |page: &Page, (id, limit): (LimitId, &Limit)| {
            (limit.spec().name.clone(), limit.rate().micros_up(page.granted_since[id.index()] + allowed(id)))
        };
        let long = || self.resource.limits_by_id().filter(|(_, limit)| limit.lists_keys());
        let page = |page: &Page| KeyPage {
            id: page.id,
            age_nanos: now.since(page.as_of).nanos(),
            spent: long().map(|each| spent(page, each)).collect(),
            keys: None,
        };
        self.ledger.keys.pages.iter().map(page).collect()
    }

    /// What a successor is to know of each key of a limit that is not listed, and has this budget.
    fn other_keys(&self, now: Time, limit: LimitId, budget: Credit) -> LevelSnapshot {
        let fresh = self.ledger.keys.absent(limit, now);
        let limit = &self.resource.limits()[limit.index()];
        let (micros, taken) = recorded(limit, &fresh, now, budget);
        LevelSnapshot { limit: limit.spec().name.clone(), micros, taken, learned: None, pending_debits: Vec::new() }
    }

    fn key_bucket(&self, now: Time, (limit, key): &KeyName) -> Cow<'_, Bucket> {
        self.ledger.keys.bucket(now, *limit, key)
    }
}

impl KeySnapshot {
    /// What a successor is to know of the bucket of a key that has this budget.
    pub(crate) fn of(limit: &Limit, key: &str, bucket: &Bucket, now: Time, budget: Credit) -> Self {
        let (micros, taken) = recorded(limit, bucket, now, budget);
        KeySnapshot { limit: limit.spec().name.clone(), key: key.to_owned(), micros, taken }
    }
}

/// The level of a bucket in millionths, and what is taken of it, its budget spent.
pub(crate) fn recorded(limit: &Limit, bucket: &Bucket, now: Time, budget: Credit) -> (i128, Option<Usage>) {
    // A bucket that is full until its budget is used does not fill meanwhile.
    let late = if budget > Credit::ZERO { limit.rate().refill_within(NEAR) } else { Credit::ZERO };
    let unknown = [UsageBlock { from: now, until: now + NEAR, credit: budget }];
    let level = bucket.level_when_paid(limit, now) - budget - late;
    (limit.rate().micros(level), bucket.usage(limit, now, &unknown, now))
}

/// What is allowed to each key of a limit that is not listed: a call as large as any of late, where that is a small part.
fn small((limit, largest): (&Limit, &Credit)) -> Credit {
    if *largest <= limit.full().divided_by(SMALL_PART) { *largest } else { Credit::ZERO }
}
