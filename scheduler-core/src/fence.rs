//! What may be granted before the store says more.
//!
//! The store holds a *mark*: a state in which everything that its writer may still grant under it, the mark's *budget*,
//! counts as spent. A successor goes on from the mark, so that whatever the writer does until it learns of its
//! successor has been paid for. Marks are written ahead of need; nothing waits for the store in normal running.
//!
//! The budget is for starts that are near, which is all that late binding needs. A start that is farther away is promised
//! first and told once the store holds a mark that has it (see `pending_grants`).

use crate::bill::{Bill, KeyName};
use crate::credit::Credit;
use crate::key_budgets::{KeyBudgets, KeyDemand};
use crate::limit::Limit;
use crate::limit_set::LimitSet;
use crate::listing::Listing;
use crate::resource::{LimitId, Resource};
use crate::spec::OnStoreLoss;
use crate::timeline::Key;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// The number of a mark, from 1 on; a later one is higher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarkNumber(pub u64);

/// How often a mark is renewed while permits are granted: four writes in a second.
const RENEWAL: Span = Span::from_millis(250);
/// How often while none are: often enough for a standby to see that its leader lives.
const IDLE_RENEWAL: Span = Span::from_millis(1000);
/// The earliest that a mark is renewed whose budget runs low.
const EARLIEST_RENEWAL: Span = Span::from_millis(200);
/// How far behind the taking of a mark starts are near: a store that is silent for a moment stops nobody.
pub(crate) const NEAR: Span = Span::from_millis(2500);
/// Marks that the store may hold at once: beyond these, what became of the others has to be known first.
const MAX_OPEN: usize = 8;
/// From mark to mark, the memory of a large call fades by one part in this many.
const FADING: u64 = 8;
/// A budget runs low when less than one part in this many is left.
const LOW_PART: u64 = 8;

/// The marks that are out, and what is left of their budgets.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    /// Marks that the store may hold, the oldest first. What is granted has to be within each of them.
    open: VecDeque<Open>,
    /// The latest that the store is known to hold.
    confirmed: MarkNumber,
    /// Nothing is granted under marks before this one.
    trusted_from: MarkNumber,
    latest: MarkNumber,
    /// When the latest mark was taken.
    taken: Option<Time>,
    /// Of how many writes it is made, with its pages.
    writes: u64,
    demand: Demand,
    /// Of each limit, the most that was granted at once since the latest mark or, fading, before.
    largest: Vec<Credit>,
    /// Whether the bucket of a key has changed since the latest mark.
    keys_changed: bool,
    keys: KeyDemand,
    /// Whether somebody could start if there were more budget.
    wanting: bool,
    /// Whether the next mark is to come soon: somebody could start if there were more of a key, waits to be told, or a successor
    /// has to know what has happened since the latest one.
    wanting_soon: bool,
    /// What may be granted although the store does not answer.
    ride: Option<Budget>,
}

/// What the latest mark allows of each limit, and what was granted since.
#[derive(Clone, Debug)]
struct Demand {
    budget: Vec<Credit>,
    granted: Vec<Credit>,
}

impl Demand {
    fn none(limits: usize) -> Self {
        Demand { budget: vec![Credit::ZERO; limits], granted: vec![Credit::ZERO; limits] }
    }

    /// A little more than was granted, or twice the budget where most of it was used up early.
    fn expected(&self, index: usize, early: bool) -> Credit {
        let (granted, budget) = (self.granted[index], self.budget[index]);
        let used_up = early && granted > budget.part(2);
        if used_up { (budget + budget).max(granted + granted) } else { granted + granted.part(4) }
    }

    fn renew(&mut self, budget: Vec<Credit>) {
        self.budget = budget;
        self.granted.fill(Credit::ZERO);
    }
}

/// Of one that is empty for some time.
const SPANS_OF_EMPTY: usize = 2;
/// Most keys that a mark lists: beyond these, all keys wait as long as the next one has to.
pub(crate) const MAX_LISTED: usize = 256;

/// Until when a successor gives keys nothing, because it takes everything that they may have been promised for spent.
#[derive(Clone, Debug)]
pub(crate) struct KeysCovered {
    pub(crate) listed: BTreeMap<KeyName, Time>,
    pub(crate) others: Time,
    /// What others have of a budget that are listed nevertheless.
    pub(crate) budgets: KeyBudgets,
}

impl KeysCovered {
    /// These keys each until their time, the others until `near`; where there are too many to list, those of the latest times.
    pub(crate) fn new(resource: &Resource, near: Time, keys: BTreeMap<KeyName, Time>) -> Self {
        let mut latest: Vec<(KeyName, Time)> = keys.into_iter().collect();
        latest.sort_by_key(|(_, until)| Reverse(*until));
        let mut listing = Listing::half(MAX_LISTED);
        let listable = |((limit, key), _): &&(KeyName, Time)| {
            listing.admits(&resource.limits()[limit.index()], key, SPANS_OF_EMPTY)
        };
        let count = latest.iter().take_while(listable).count();
        let others = latest.get(count).map_or(near, |(_, until)| *until);
        latest.truncate(count);
        let listed = latest.into_iter().filter(|(_, until)| *until > others).collect();
        KeysCovered { listed, others, budgets: KeyBudgets::default() }
    }

    /// Whether a successor gives the keys of `bill` nothing for as long, or has charged it to them.
    fn covers(&self, resource: &Resource, bill: &Bill, start: Time) -> bool {
        bill.keyed().all(|charge| {
            if start <= self.others && !self.budgets.are_for(resource, charge.limit) {
                return true;
            }
            match self.listed.get(&charge.name()) {
                Some(until) => start <= *until,
                None => start <= self.others && self.budgets.cover(resource, charge),
            }
        })
    }

    /// Whether a budget of `bill` is what is missing.
    fn lack_budget(&self, resource: &Resource, bill: &Bill) -> bool {
        let listed = |name: &KeyName| self.listed.contains_key(name);
        bill.keyed().any(|charge| !self.budgets.cover(resource, charge) && !listed(&charge.name()))
    }
}

/// What may still be granted for starts until a certain time.
#[derive(Clone, Debug)]
struct Budget {
    until: Time,
    left: Vec<Credit>,
}

impl Budget {
    fn covers(&self, resource: &Resource, bill: &Bill, start: Time) -> bool {
        start <= self.until && self.lacking(resource, bill).is_none()
    }

    /// The first limit of which too little is left.
    fn lacking(&self, resource: &Resource, bill: &Bill) -> Option<LimitId> {
        let short = |(id, amount): &(LimitId, Amount)| self.left[id.index()] < credit(resource, *id, *amount);
        bill.iter().find(short).map(|(id, _)| id)
    }

    fn charge(&mut self, resource: &Resource, bill: &Bill) {
        for (id, amount) in bill.iter() {
            self.left[id.index()] -= credit(resource, id, amount);
        }
    }

    fn give_back(&mut self, resource: &Resource, amounts: impl Iterator<Item = (LimitId, Amount)>) {
        amounts.for_each(|(id, amount)| self.left[id.index()] += credit(resource, id, amount));
    }
}

/// What a mark allows.
#[derive(Clone, Debug)]
struct Open {
    number: MarkNumber,
    /// The serial number of the last start before it.
    behind: u64,
    budget: Budget,
    keys: KeysCovered,
}

impl Open {
    /// Whether the start of `key` was charged to it.
    fn charged(&self, key: Key) -> bool {
        self.behind < key.serial && key.at <= self.budget.until
    }
}

/// What requests that are there could be granted this very moment, by limit.
#[derive(Clone, Debug)]
pub(crate) struct AtOnce {
    pub(crate) wanted: Vec<Credit>,
    /// All levels as far as near starts are concerned.
    pub(crate) levels: Vec<Credit>,
}

/// What a mark that is to be written allows.
#[derive(Clone, Debug)]
pub(crate) struct NewMark {
    pub(crate) number: MarkNumber,
    /// For starts until then.
    pub(crate) until: Time,
    /// By limit.
    pub(crate) budget: Vec<Credit>,
}

impl Fence {
    /// A fence without any mark: nothing may be granted yet.
    pub(crate) fn new(resource: &Resource) -> Self {
        let limits = resource.limits();
        Fence {
            open: VecDeque::new(),
            confirmed: MarkNumber::default(),
            trusted_from: MarkNumber(1),
            latest: MarkNumber::default(),
            taken: None,
            writes: 1,
            demand: Demand::none(limits.len()),
            largest: limits.iter().map(|limit| limit.rate().credit(Amount::ONE)).collect(),
            keys_changed: false,
            keys: KeyDemand::default(),
            wanting: false,
            wanting_soon: false,
            ride: None,
        }
    }

    /// The fence of limits that have other sizes: earlier marks allow nothing any more.
    pub(crate) fn after(before: &Fence, resource: &Resource) -> Self {
        let trusted_from = MarkNumber(before.latest.0 + 1);
        let Fence { confirmed, latest, taken, .. } = *before;
        Fence { confirmed, latest, taken, trusted_from, ..Fence::new(resource) }
    }

    /// Whether a permit for a start at `start` is within every mark that the store may hold.
    pub(crate) fn covers(&self, resource: &Resource, bill: &Bill, start: Time) -> bool {
        if bill.is_empty() {
            return true;
        }
        let within = |open: &Open| open.budget.covers(resource, bill, start) && open.keys.covers(resource, bill, start);
        let within_marks = || self.open.iter().all(within);
        let ride = self.ride.as_ref().filter(|_| !self.lacks_key(resource, bill));
        let within_ride = || ride.is_some_and(|ride| ride.covers(resource, bill, start));
        self.is_trusted() && (within_marks() || within_ride())
    }

    /// Whether starts at `start` are near, seen from every mark that the store may hold: these have budgets for them.
    fn is_near(&self, start: Time) -> bool {
        self.open.iter().all(|open| start <= open.budget.until)
    }

    /// The first mark that will have what is promised from now on.
    pub(crate) fn next(&self) -> MarkNumber {
        MarkNumber(self.latest.0 + 1)
    }

    /// The latest mark that the store is known to hold.
    pub(crate) fn confirmed(&self) -> MarkNumber {
        self.confirmed
    }

    /// The latest mark that the store is known to hold, if nobody else can have led since.
    pub(crate) fn stored(&self) -> Option<MarkNumber> {
        self.is_trusted().then_some(self.confirmed)
    }

    /// Whether a mark allows too little of a key that it has to list.
    fn lacks_key(&self, resource: &Resource, bill: &Bill) -> bool {
        self.open.iter().any(|open| open.keys.lack_budget(resource, bill))
    }

    /// The limit whose budget `bill` waits for, if it is not [covered](Fence::covers).
    pub(crate) fn lacking(&self, resource: &Resource, bill: &Bill) -> Option<LimitId> {
        let short = self.open.iter().find_map(|open| open.budget.lacking(resource, bill));
        short.or_else(|| bill.charged().next())
    }

    /// Notes that somebody could start in this time if there were more budget for `bill`. There is no hurry for a start that is
    /// farther away than the next mark.
    pub(crate) fn want(&mut self, resource: &Resource, bill: &Bill, ahead: Span) {
        match self.lacks_key(resource, bill) || ahead > EARLIEST_RENEWAL {
            true => self.wanting_soon = true,
            false => self.wanting = true,
        }
    }

    /// The next mark is not to be later than it can be.
    pub(crate) fn hasten(&mut self) {
        self.wanting_soon = true;
    }

    /// What keys were granted under the latest mark.
    pub(crate) fn key_demand(&self) -> &KeyDemand {
        &self.keys
    }

    /// Notes what was granted for a start at `start`, or spent then beyond what was granted. A budget pays for near starts alone.
    pub(crate) fn charge(&mut self, resource: &Resource, bill: &Bill, start: Time) {
        if self.is_near(start) {
            for (id, amount) in bill.iter() {
                self.demand.granted[id.index()] += credit(resource, id, amount);
            }
        }
        let budgets = self.open.iter_mut().map(|open| &mut open.budget).chain(&mut self.ride);
        budgets.filter(|budget| start <= budget.until).for_each(|budget| budget.charge(resource, bill));
        if bill.keyed().next().is_some() {
            self.keys_changed = true;
            if self.open.back().is_some_and(|latest| latest.keys.budgets.are_kept()) {
                self.keys.note(resource, bill);
            }
            self.note_largest(resource, bill.keyed().map(|charge| (charge.limit, charge.amount)));
            self.open.iter_mut().for_each(|open| open.keys.budgets.charge(resource, bill));
        }
        self.note_largest(resource, bill.iter());
    }

    fn note_largest(&mut self, resource: &Resource, charges: impl Iterator<Item = (LimitId, Amount)>) {
        for (id, amount) in charges {
            let largest = &mut self.largest[id.index()];
            *largest = credit(resource, id, amount).max(*largest);
        }
    }

    /// By limit, the most that was granted at once of late.
    pub(crate) fn largest(&self) -> &[Credit] {
        &self.largest
    }

    /// Whether a successor expects calls to be renewed now that take up room until they are settled.
    pub(crate) fn covers_renewals(&self, now: Time) -> bool {
        self.is_trusted() && self.open.iter().all(|open| now <= open.budget.until)
    }

    /// Notes that the call of `key` is over, which has held its `places` until now: another may have them under the same marks.
    ///
    /// A mark counts each place of a call until whoever starts as near could hold it: the call was held when the mark was taken, or was
    /// charged to it since. A call whose lease has ended may be in no later mark, so that it has no place to give back.
    pub(crate) fn release(&mut self, resource: &Resource, key: Key, bill: &Bill, places: LimitSet) {
        for open in self.open.iter_mut().filter(|open| key.at <= open.budget.until) {
            open.budget.give_back(resource, bill.iter().filter(|(limit, _)| places.has(*limit)));
        }
    }

    /// Whether it has to be known first what became of earlier marks.
    pub(crate) fn is_full(&self) -> bool {
        self.open.len() == MAX_OPEN
    }

    /// Notes that the permit of `key` has come back unused: another may have what it was charged under the same marks, and its `places`.
    ///
    /// A mark's budget bounds what is used under it, and what was never used is no part of that. Marks that were taken
    /// behind the charge count it as spent until its own start only, so that nobody may have it at another under these.
    pub(crate) fn give_back(&mut self, resource: &Resource, key: Key, bill: &Bill, places: LimitSet) {
        for open in self.open.iter_mut().filter(|open| open.charged(key)) {
            let rest = bill.iter().filter(|(limit, _)| !places.has(*limit));
            open.budget.give_back(resource, rest);
            open.keys.budgets.give_back(resource, bill);
        }
        self.release(resource, key, bill, places);
    }

    /// Opens the next mark, behind the start with this serial number, before which so many pages are written.
    pub(crate) fn open(
        &mut self,
        resource: &Resource,
        (now, behind): (Time, u64),
        at_once: &AtOnce,
        keys: &KeysCovered,
        pages: usize,
    ) -> NewMark {
        self.latest = MarkNumber(self.latest.0 + 1);
        let (until, budget) = (now + NEAR, self.next_budgets(resource, now, at_once));
        self.open.push_back(Open {
            number: self.latest,
            behind,
            budget: Budget { until, left: budget.clone() },
            keys: keys.clone(),
        });
        self.demand.renew(budget.clone());
        self.keys.renew(&keys.budgets);
        self.taken = Some(now);
        self.writes = 1 + pages as u64;
        self.wanting = false;
        self.wanting_soon = false;
        self.keys_changed = false;
        self.forget_large_calls(resource);
        NewMark { number: self.latest, until, budget }
    }

    /// The store holds the mark with this number or a later one.
    pub(crate) fn confirm(&mut self, number: MarkNumber) {
        self.confirmed = self.confirmed.max(number);
        self.open.retain(|open| open.number >= number);
        self.ride = None;
    }

    /// Nothing is granted until a mark that is opened from now on is confirmed.
    pub(crate) fn doubt(&mut self) {
        self.trusted_from = MarkNumber(self.latest.0 + 1);
        self.ride = None;
    }

    /// Whether this mark was opened since the last doubt.
    pub(crate) fn settles_doubt(&self, number: MarkNumber) -> bool {
        number >= self.trusted_from
    }

    /// Whether a mark is confirmed that was opened since the last doubt.
    pub(crate) fn is_trusted(&self) -> bool {
        self.confirmed >= self.trusted_from
    }

    /// The store does not take marks.
    pub(crate) fn store_lost(&mut self, resource: &Resource, now: Time) {
        if let (OnStoreLoss::Ride(span), None) = (resource.spec().on_store_loss, &self.ride) {
            let left = resource.limits().iter().map(|limit| limit.rate().refill_within(span)).collect();
            self.ride = Some(Budget { until: now + span, left });
        }
    }

    /// When the next mark is to be opened.
    pub(crate) fn due(&self) -> Time {
        let Some(taken) = self.taken else { return Time::ORIGIN };
        let granted = self.demand.granted.iter().any(|granted| *granted > Credit::ZERO);
        let earliest = taken + Span::from_nanos(EARLIEST_RENEWAL.nanos() * self.writes);
        match () {
            () if self.wanting || self.latest < self.trusted_from => taken,
            () if self.wanting_soon || granted && self.runs_low() => earliest,
            () if granted || self.keys_changed => earliest.max(taken + RENEWAL),
            () => taken + IDLE_RENEWAL,
        }
    }

    /// Whether the next near start or so might not be covered.
    fn runs_low(&self) -> bool {
        let Some(latest) = self.open.back() else { return false };
        let low =
            |((left, budget), largest): ((&Credit, &Credit), &Credit)| *left < budget.part(LOW_PART).max(*largest);
        latest.budget.left.iter().zip(&self.demand.budget).zip(&self.largest).any(low)
    }

    /// For each limit what it can pay within the reservation's time, which is what it refills then or a call at least; or a
    /// little more than was granted in the time of the last mark; and what might be granted at once.
    fn next_budgets(&self, resource: &Resource, now: Time, at_once: &AtOnce) -> Vec<Credit> {
        let early = self.taken.is_some_and(|taken| now.since(taken) < EARLIEST_RENEWAL);
        let next = |(index, limit): (usize, &Limit)| {
            let refill = limit.rate().refill_within(resource.spec().reservation);
            let payable = (at_once.levels[index] + refill).max(Credit::ZERO);
            let usual = refill.max(self.largest[index]).min(payable);
            usual.max(self.demand.expected(index, early).min(payable)) + at_once.wanted[index]
        };
        resource.limits().iter().enumerate().map(next).collect()
    }

    fn forget_large_calls(&mut self, resource: &Resource) {
        for (largest, limit) in self.largest.iter_mut().zip(resource.limits()) {
            *largest = (*largest - largest.part(FADING)).max(limit.rate().credit(Amount::ONE));
        }
    }
}

fn credit(resource: &Resource, id: LimitId, amount: Amount) -> Credit {
    resource.limits()[id.index()].rate().credit(amount)
}
