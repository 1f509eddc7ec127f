//! Keys that marks list one by one.
//!
//! A million keys may change between two marks, so that a mark does not have them all, and a successor takes those that it does not know for
//! empty. Of a limit whose period is long that would be for hours, or until next month. So a mark lists all keys of such limits that are
//! not full, as long as there are not too many, each with a budget of its own. A key that is not listed was full, and may be granted
//! a call before a mark lists it, where that is a small part of what it has.

use crate::bill::{Bill, KeyCharge, KeyName};
use crate::bucket::Bucket;
use crate::counter::Unknown;
use crate::credit::Credit;
use crate::fence::{Fence, NEAR};
use crate::limit::Limit;
use crate::line::Line;
use crate::listing::Listing;
use crate::resource::{LimitId, Resource};
use crate::scheduler::Scheduler;
use crate::snapshot::{KeyMark, OtherKeys};
use crate::taken::Taken;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Time;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Most keys that are listed so. Of more, none is.
const MOST: usize = 500;
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
    /// What a mark is to allow of each key; nothing where there are too many to list.
    pub(crate) fn key_budgets(&self, now: Time) -> KeyBudgets {
        KeyBudgets(self.fence.as_ref().and_then(|fence| self.next_key_budgets(now, fence)))
    }

    fn next_key_budgets(&self, now: Time, fence: &Fence) -> Option<Budgets> {
        let limits = self.resource.limits();
        let others: Vec<Credit> = limits.iter().zip(fence.largest()).map(small).collect();
        let expected = |name: KeyName| {
            let one = limits[name.0.index()].rate().credit(Amount::ONE);
            let expected = fence.key_demand().expected(&name, one);
            (name, expected)
        };
        let mut left: BTreeMap<KeyName, Credit> = self.ledger.keys.used(now, MOST)?.map(expected).collect();
        for (name, wanted) in self.wanted_of_keys() {
            let budget = left.entry(name).or_insert(Credit::ZERO);
            *budget = wanted.max(*budget);
        }
        let mut listing = Listing::half(MOST);
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
fn told(limit: &Limit, bucket: &Bucket, now: Time, budget: Credit) -> (i128, Option<Taken>) {
    // A bucket that is full until its budget is used does not fill meanwhile.
    let late = if budget > Credit::ZERO { limit.rate().refill_within(NEAR) } else { Credit::ZERO };
    let unknown = [Unknown { from: now, until: now + NEAR, credit: budget }];
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
