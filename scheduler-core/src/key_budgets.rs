//! Keys of long limits, one by one.
//!
//! A million keys may change between two marks, so that a mark does not have them all, and a successor takes those that it does not know for
//! empty. Of a limit whose period is long that would be for hours, or until next month. So a mark lists the keys of such limits that are
//! in use, each with a budget of its own, and names the [pages](crate::key_pages) that tell of those at rest. A key that is not listed
//! may be granted a call before a mark lists it, where that is a small part of what it has.

use crate::bill::{Bill, KeyCharge, KeyName};
use crate::bucket::Bucket;
use crate::credit::Credit;
use crate::fence::{Fence, NEAR};
use crate::key_pages::Page;
use crate::limit::Limit;
use crate::line::Line;
use crate::listing::Listing;
use crate::resource::{LimitId, Resource};
use crate::scheduler::Scheduler;
use crate::slab::Slot;
use crate::snapshot::{KeyMark, KeyPage, NewPage, OtherKeys};
use crate::taken::{Block, Taken};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Time;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most keys that a mark lists so. Of more, those at rest are written to pages.
const MOST: usize = 500;
/// Keys on a page.
const PAGE: usize = 3000;
/// Most pages that are written with one mark: beyond, as after a change of limits, a successor takes keys for empty until the others
/// have been written.
const PAGES_AT_ONCE: usize = 4;
/// Those first in line for whom there is to be a budget.
const MOST_IN_LINE: usize = 64;
/// A call takes at most one part in this many of a bucket to be allowed to every key: so much is lost with whoever leads.
const SMALL_PART: u64 = 16;

/// What a mark still allows of each key; nothing is said where there are too many to list.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyBudgets(Option<Budgets>);

#[derive(Clone, Debug)]
struct Budgets {
    left: BTreeMap<KeyName, Credit>,
    /// By limit, for a key that is not listed.
    others: Vec<Credit>,
}

impl KeyBudgets {
    /// Whether there are any.
    pub(crate) fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// All keys that are listed, with what is left for each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&KeyName, &Credit)> {
        self.0.iter().flat_map(|budgets| &budgets.left)
    }

    /// What is left for each key of a limit that is not listed.
    pub(crate) fn of_others(&self, limit: LimitId) -> Credit {
        self.0.as_ref().map_or(Credit::ZERO, |budgets| budgets.others[limit.index()])
    }

    /// Whether keys of this limit have budgets.
    pub(crate) fn are_for(&self, resource: &Resource, limit: LimitId) -> bool {
        self.0.is_some() && resource.limits()[limit.index()].lists_keys()
    }

    /// Whether enough is left for `charge`, if it needs a budget.
    pub(crate) fn cover(&self, resource: &Resource, charge: &KeyCharge) -> bool {
        let budgets = self.0.as_ref().filter(|_| self.are_for(resource, charge.limit));
        budgets.is_none_or(|budgets| {
            let left = budgets.left.get(&charge.name()).copied();
            left.unwrap_or(budgets.others[charge.limit.index()]) >= credit(resource, charge)
        })
    }

    pub(crate) fn charge(&mut self, resource: &Resource, bill: &Bill) {
        let Some(Budgets { left, others }) = &mut self.0 else { return };
        for charge in listed(resource, bill) {
            *left.entry(charge.name()).or_insert(others[charge.limit.index()]) -= credit(resource, charge);
        }
    }

    /// What was charged is there again.
    pub(crate) fn give_back(&mut self, resource: &Resource, bill: &Bill) {
        let Some(Budgets { left, .. }) = &mut self.0 else { return };
        for charge in listed(resource, bill) {
            left.entry(charge.name()).and_modify(|left| *left += credit(resource, charge));
        }
    }
}

/// What the latest mark allows of each key that it lists, and what was granted since.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyDemand {
    budget: BTreeMap<KeyName, Credit>,
    granted: BTreeMap<KeyName, Credit>,
}

impl KeyDemand {
    pub(crate) fn note(&mut self, resource: &Resource, bill: &Bill) {
        for charge in listed(resource, bill) {
            *self.granted.entry(charge.name()).or_insert(Credit::ZERO) += credit(resource, charge);
        }
    }

    pub(crate) fn renew(&mut self, budgets: &KeyBudgets) {
        self.budget = budgets.0.as_ref().map(|budgets| budgets.left.clone()).unwrap_or_default();
        self.granted.clear();
    }

    /// Twice as much where most of the budget was used up, and otherwise a little more than was granted; of one that nobody uses any
    /// more, less with every mark, until that is less than `one`.
    fn expected(&self, name: &KeyName, one: Credit) -> Credit {
        let of = |credits: &BTreeMap<KeyName, Credit>| credits.get(name).copied().unwrap_or(Credit::ZERO);
        let (budget, granted) = (of(&self.budget), of(&self.granted));
        if granted > budget.part(2) {
            let most = budget.max(granted);
            return most + most;
        }
        let faded = budget.part(2);
        (granted + granted.part(4)).max(if faded < one { Credit::ZERO } else { faded })
    }
}

impl<R: Clone> Scheduler<R> {
    /// What a mark is to allow of each key, and the pages that are to be written before it.
    pub(crate) fn key_budgets(&mut self, now: Time) -> (KeyBudgets, Vec<NewPage>) {
        if self.fence.is_none() || !self.resource.limits().iter().any(Limit::lists_keys) {
            return (KeyBudgets::default(), Vec::new());
        }
        if self.ledger.keys.in_use.len() < MOST {
            self.ledger.keys.reuse_sparse_page();
        }
        let mut wanted = self.wanted_of_keys();
        let used: Vec<(KeyName, Slot)> = self.ledger.keys.used(now).collect();
        let mut resting = Vec::new();
        for (name, slot) in used {
            let expected = self.expected_of_key(&name);
            let budget = wanted.entry(name).or_insert(Credit::ZERO);
            *budget = expected.max(*budget);
            resting.push(slot);
        }
        let pages =
            if wanted.len() > MOST { self.turn_pages(now, resting, PAGES_AT_ONCE, &mut wanted) } else { Vec::new() };
        (KeyBudgets(self.listable(now, wanted)), pages)
    }

    fn expected_of_key(&self, name: &KeyName) -> Credit {
        let one = self.resource.limits()[name.0.index()].rate().credit(Amount::ONE);
        let demand = self.fence.as_ref().map(Fence::key_demand);
        demand.map_or(Credit::ZERO, |demand| demand.expected(name, one))
    }

    /// All keys of long limits that no page tells of, as many as fit, on pages: nothing is granted any more.
    pub(crate) fn turn_all_pages(&mut self, now: Time) -> Vec<NewPage> {
        let mut budgets = BTreeMap::new();
        let mut used = Vec::new();
        for (name, slot) in self.ledger.keys.used(now) {
            budgets.insert(name, Credit::ZERO);
            used.push(slot);
        }
        if used.len() > MOST { self.turn_pages(now, used, usize::MAX, &mut budgets) } else { Vec::new() }
    }

    /// Writes those who use their keys least to pages, until the others can be listed.
    fn turn_pages(
        &mut self,
        now: Time,
        used: Vec<Slot>,
        most: usize,
        budgets: &mut BTreeMap<KeyName, Credit>,
    ) -> Vec<NewPage> {
        let keys = &self.ledger.keys;
        let name_of = |slot: Slot| keys.get(slot).map(|known| (known.limit, Arc::clone(&known.key)));
        let mut least: Vec<(Credit, Slot, KeyName)> = Vec::new();
        for slot in used {
            let owes = keys.get(slot).is_some_and(|known| known.bucket.last_promise().is_some());
            let name = name_of(slot).filter(|_| !owes);
            least.extend(name.and_then(|name| Some((*budgets.get(&name)?, slot, name))));
        }
        least.sort_by_key(|(budget, slot, _)| (*budget, *slot));
        let mut pages = Vec::new();
        let mut least = least.into_iter().peekable();
        // One page is enough where the mark has room for all others.
        while least.peek().is_some() && pages.len() < most && (pages.is_empty() || budgets.len() > PAGE) {
            let mut listing = Listing::of(PAGE);
            let (mut slots, mut marks) = (Vec::new(), Vec::new());
            while let Some((_, slot, name)) = least.peek() {
                let mark = self.listed_key(now, name, Credit::ZERO);
                let spans = mark.taken.as_ref().map_or(0, |taken| taken.spans.len());
                if !listing.admits(&self.resource.limits()[name.0.index()], &name.1, spans) {
                    break;
                }
                slots.push(*slot);
                marks.push(mark);
                budgets.remove(name);
                least.next();
            }
            let stored = self.fence.as_ref().map(Fence::confirmed).unwrap_or_default();
            let id = self.ledger.keys.pages.next_id(self.epoch, stored);
            self.ledger.keys.rest(now, id, slots);
            pages.push(NewPage { id, keys: marks });
        }
        pages
    }

    /// The budgets of keys that a mark can list; nothing where there are too many.
    fn listable(&self, now: Time, mut left: BTreeMap<KeyName, Credit>) -> Option<Budgets> {
        let limits = self.resource.limits();
        let others: Vec<Credit> = limits.iter().zip(self.fence.as_ref()?.largest()).map(small).collect();
        let mut listing = Listing::half(PAGE);
        let mut fits = |name: &KeyName| {
            let limit = &limits[name.0.index()];
            let (_, taken) = told(limit, &self.key_bucket(now, name), now, limit.full());
            listing.admits(limit, &name.1, taken.map_or(0, |taken| taken.spans.len()))
        };
        if !left.keys().all(&mut fits) {
            return None;
        }
        for (name, budget) in &mut left {
            // More than there is can't be granted, and would be lost with whoever leads.
            let level = self.key_bucket(now, name).level(&limits[name.0.index()], now);
            *budget = others[name.0.index()].max(*budget).min(level.max(Credit::ZERO));
        }
        Some(Budgets { left, others })
    }

    /// What those who are held, and the first in line, want of each key.
    fn wanted_of_keys(&self) -> BTreeMap<KeyName, Credit> {
        let in_line = self.lines.iter().flat_map(Line::iter).take(MOST_IN_LINE);
        let bills = in_line.map(|slot| &*self.permits.get(slot).bill);
        let mut wanted = BTreeMap::new();
        for charge in bills.chain(self.bills_held()).flat_map(|bill| listed(&self.resource, bill)) {
            *wanted.entry(charge.name()).or_insert(Credit::ZERO) += credit(&self.resource, charge);
        }
        wanted
    }

    /// What a successor is to know of a key that has this budget.
    pub(crate) fn listed_key(&self, now: Time, name: &KeyName, budget: Credit) -> KeyMark {
        let limit = &self.resource.limits()[name.0.index()];
        let (micros, taken) = told(limit, &self.key_bucket(now, name), now, budget);
        KeyMark { limit: limit.name().clone(), key: name.1.to_string(), micros, taken }
    }

    /// The pages that tell of keys at rest, each of which may be granted as much as `allowed`.
    pub(crate) fn key_pages(&self, now: Time, allowed: impl Fn(LimitId) -> Credit) -> Vec<KeyPage> {
        let limits = || self.resource.limits().iter().enumerate().filter(|(_, limit)| limit.lists_keys());
        let page = |page: &Page| KeyPage {
            id: page.id,
            age_nanos: now.since(page.taken).nanos(),
            spent: limits()
                .map(|(index, limit)| {
                    let spent = page.spent[index] + allowed(LimitId(index as u8));
                    (limit.name().clone(), limit.rate().micros_up(spent))
                })
                .collect(),
            keys: None,
        };
        self.ledger.keys.pages.iter().map(page).collect()
    }

    /// What a successor is to know of each key of a limit that is not listed, and has this budget.
    pub(crate) fn other_keys(&self, now: Time, limit: LimitId, budget: Credit) -> OtherKeys {
        let fresh = self.ledger.keys.fresh(limit, now);
        let limit = &self.resource.limits()[limit.index()];
        let (micros, taken) = told(limit, &fresh, now, budget);
        OtherKeys { limit: limit.name().clone(), micros, taken }
    }

    fn key_bucket(&self, now: Time, (limit, key): &KeyName) -> Cow<'_, Bucket> {
        self.ledger.keys.bucket_of(now, *limit, key)
    }
}

/// The level of a bucket in millionths, and what is taken of it, its budget spent.
pub(crate) fn told(limit: &Limit, bucket: &Bucket, now: Time, budget: Credit) -> (i128, Option<Taken>) {
    // A bucket that is full until its budget is used does not fill meanwhile.
    let late = if budget > Credit::ZERO { limit.rate().refill_within(NEAR) } else { Credit::ZERO };
    let unknown = [Block { from: now, until: now + NEAR, credit: budget }];
    let level = bucket.level_when_paid(limit, now) - budget - late;
    (limit.rate().micros(level), bucket.taken(limit, now, &unknown, now))
}

/// What is allowed to each key of a limit that is not listed: a call as large as any of late, where that is a small part.
fn small((limit, largest): (&Limit, &Credit)) -> Credit {
    if *largest <= limit.full().part(SMALL_PART) { *largest } else { Credit::ZERO }
}

/// What `bill` takes of keys that marks list.
fn listed<'a>(resource: &'a Resource, bill: &'a Bill) -> impl Iterator<Item = &'a KeyCharge> {
    bill.keyed().filter(|charge| resource.limits()[charge.limit.index()].lists_keys())
}

fn credit(resource: &Resource, charge: &KeyCharge) -> Credit {
    resource.limits()[charge.limit.index()].rate().credit(charge.amount)
}
