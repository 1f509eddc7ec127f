//! What may be granted before the store says more.
//!
//! The store holds a *checkpoint*: a state in which everything that its writer may still grant under it, the checkpoint's *budget*,
//! counts as spent. A successor goes on from the checkpoint, so that whatever the writer does until it learns of its
//! successor has been paid for. Checkpoints are written ahead of need; nothing waits for the store in normal running.
//!
//! The budget is for starts that are near, which is all that late binding needs. A start that is farther away is promised
//! first and told once the store holds a checkpoint that has it (see `pending`).

use super::allowance::Allowance;
use super::key_budgets::KeyBudgets;
use crate::arithmetic::Credit;
use crate::ids::{CheckpointNumber, LimitId};
use crate::ledger::NEAR;
use crate::limits::StartKey;
use crate::policy::{Bill, Limit, LimitSet, OnStoreLoss, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use std::collections::VecDeque;

/// How often a checkpoint is renewed while permits are granted: four writes in a second.
const RENEWAL: Span = Span::from_millis(250);
/// How often while none are: often enough for a standby to see that its leader lives.
const IDLE_RENEWAL: Span = Span::from_millis(1000);
/// The earliest that a checkpoint is renewed whose budget runs low.
const EARLIEST_RENEWAL: Span = Span::from_millis(200);
/// Checkpoints that the store may hold at once: beyond these, what became of the others has to be known first.
const MAX_OPEN: usize = 8;
/// From checkpoint to checkpoint, the memory of a large call fades by one part in this many.
const FADING: u64 = 8;

/// The checkpoints that are out, and what is left of their budgets.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrantBudget {
    /// Checkpoints that the store may hold, the oldest first. What is granted has to be within each of them.
    open: VecDeque<Open>,
    /// The latest that the store is known to hold.
    confirmed: CheckpointNumber,
    /// Nothing is granted under checkpoints before this one.
    trusted_from: CheckpointNumber,
    latest: CheckpointNumber,
    /// When the latest checkpoint was taken.
    taken: Option<Time>,
    /// Of how many writes it is made, with its pages.
    writes: u64,
    /// Of each limit, the most that was granted at once since the latest checkpoint or, fading, before.
    largest: Vec<Credit>,
    urgency: Urgency,
    /// What may be granted although the store does not answer.
    ride: Option<Allowances>,
}

/// How soon the next checkpoint is due, by what has happened since the latest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    #[default]
    /// A standby has to see that its leader lives.
    Idle,
    /// Something was granted.
    Usual,
    /// A request could start if there were more of a key, or waits to be told; or a successor has to know what has happened.
    Soon,
    /// A request could start if there were more budget, or nothing can because of a doubt.
    ImmediateDemand,
}

/// What may still be granted for starts until a certain time.
#[derive(Clone, Debug)]
struct Allowances {
    until: Time,
    limits: Vec<Allowance>,
}

impl Allowances {
    fn new(until: Time, credits: impl Iterator<Item = Credit>) -> Self {
        Allowances { until, limits: credits.map(Allowance::new).collect() }
    }

    fn covers(&self, resource: &Resource, bill: &Bill, start: Time) -> bool {
        start <= self.until && self.lacking(resource, bill).is_none()
    }

    /// The first limit of which too little is left.
    fn lacking(&self, resource: &Resource, bill: &Bill) -> Option<LimitId> {
        let short = |(id, amount): &(LimitId, Amount)| !self.limits[id.index()].covers(credit(resource, *id, *amount));
        bill.iter().find(short).map(|(id, _)| id)
    }

    fn charge(&mut self, resource: &Resource, bill: &Bill) {
        for (id, amount) in bill.iter() {
            self.limits[id.index()].charge(credit(resource, id, amount));
        }
    }

    fn give_back(&mut self, resource: &Resource, amounts: impl Iterator<Item = (LimitId, Amount)>) {
        amounts.for_each(|(id, amount)| self.limits[id.index()].give_back(credit(resource, id, amount)));
    }
}

/// What a checkpoint allows.
#[derive(Clone, Debug)]
struct Open {
    number: CheckpointNumber,
    /// The serial number of the last start before it.
    behind: u64,
    budget: Allowances,
    /// None if keys need no budget.
    keys: Option<KeyBudgets>,
}

/// What requests that are there could be granted of a limit this very moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImmediateDemand {
    pub(crate) wanted: Credit,
    /// Its level as far as near starts are concerned.
    pub(crate) level: Credit,
}

impl GrantBudget {
    /// A fence without any checkpoint: nothing may be granted yet.
    pub(crate) fn new(resource: &Resource) -> Self {
        let largest = resource.limits().iter().map(|limit| limit.rate().credit(Amount::ONE)).collect();
        GrantBudget { trusted_from: CheckpointNumber(1), writes: 1, largest, ..GrantBudget::default() }
    }

    /// The fence of limits that have other sizes: earlier checkpoints allow nothing any more.
    pub(crate) fn after(before: &GrantBudget, resource: &Resource) -> Self {
        let trusted_from = CheckpointNumber(before.latest.0 + 1);
        let GrantBudget { confirmed, latest, taken, .. } = *before;
        GrantBudget {
            confirmed,
            latest,
            taken,
            trusted_from,
            urgency: Urgency::ImmediateDemand,
            ..GrantBudget::new(resource)
        }
    }

    /// Whether a permit for a start at `start` is within every checkpoint that the store may hold.
    pub(crate) fn covers(&self, resource: &Resource, bill: &Bill, start: Time) -> bool {
        if bill.is_empty() {
            return true;
        }
        let within = |budget: &Allowances| budget.covers(resource, bill, start);
        let within_marks = || self.open.iter().all(|open| within(&open.budget));
        let within_ride = || self.ride.as_ref().is_some_and(within);
        self.is_trusted() && !self.lacks_key(resource, bill) && (within_marks() || within_ride())
    }

    /// The first checkpoint that will have what is promised from now on.
    pub(crate) fn next(&self) -> CheckpointNumber {
        CheckpointNumber(self.latest.0 + 1)
    }

    /// The latest checkpoint that the store is known to hold.
    pub(crate) fn confirmed(&self) -> CheckpointNumber {
        self.confirmed
    }

    /// The latest checkpoint that the store is known to hold, if nobody else can have led since.
    pub(crate) fn stored(&self) -> Option<CheckpointNumber> {
        self.is_trusted().then_some(self.confirmed)
    }

    /// Whether a checkpoint allows too little of a key that needs a budget.
    fn lacks_key(&self, resource: &Resource, bill: &Bill) -> bool {
        self.open.iter().filter_map(|open| open.keys.as_ref()).any(|keys| !keys.cover(resource, bill))
    }

    /// The limit whose budget `bill` waits for, if it is not [covered](GrantBudget::covers).
    pub(crate) fn lacking(&self, resource: &Resource, bill: &Bill) -> Option<LimitId> {
        let short = self.open.iter().find_map(|open| open.budget.lacking(resource, bill));
        short.or_else(|| bill.charged().next())
    }

    /// Notes that somebody could start in this time if there were more budget for `bill`. There is no hurry for a start that is
    /// farther away than the next checkpoint.
    pub(crate) fn want(&mut self, resource: &Resource, bill: &Bill, ahead: Span) {
        let soon = self.lacks_key(resource, bill) || ahead > EARLIEST_RENEWAL;
        self.urge(if soon { Urgency::Soon } else { Urgency::ImmediateDemand });
    }

    /// The next checkpoint is not to be later than it can be.
    pub(crate) fn hasten(&mut self) {
        self.urge(Urgency::Soon);
    }

    fn urge(&mut self, urgency: Urgency) {
        self.urgency = self.urgency.max(urgency);
    }

    /// What the latest checkpoint allows of keys, where they need budgets.
    pub(crate) fn key_budgets(&self) -> Option<&KeyBudgets> {
        self.open.back()?.keys.as_ref()
    }

    /// Notes what was granted for a start at `start`, or spent then beyond what was granted. A budget pays for near starts alone.
    pub(crate) fn charge(&mut self, resource: &Resource, bill: &Bill, start: Time) {
        for open in self.open.iter_mut().filter(|open| start <= open.budget.until) {
            open.budget.charge(resource, bill);
            open.keys.iter_mut().for_each(|keys| keys.charge(resource, bill));
        }
        self.ride.iter_mut().filter(|ride| start <= ride.until).for_each(|ride| ride.charge(resource, bill));
        for (id, amount) in bill.amounts() {
            self.urge(Urgency::Usual);
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

    /// Notes that the call of `key` is over, which has held its `places` until now, or was never `made`: another may have what it was
    /// charged under the same checkpoints.
    ///
    /// A checkpoint counts each place of a call until whoever starts as near could hold it: the call was held when the checkpoint was taken, or was
    /// charged to it since. A call whose lease has ended may be in no later checkpoint, so that it has no place to give back.
    ///
    /// A checkpoint's budget bounds what is used under it, and what was never used is no part of that. Checkpoints that were taken
    /// behind the charge count it as spent until its own start only, so that nobody may have it at another under these.
    pub(crate) fn release(&mut self, resource: &Resource, key: StartKey, bill: &Bill, places: LimitSet, made: bool) {
        for open in self.open.iter_mut().filter(|open| key.at <= open.budget.until) {
            let unused = !made && open.behind < key.serial;
            open.budget.give_back(resource, bill.iter().filter(|(limit, _)| unused || places.has(*limit)));
            open.keys.iter_mut().filter(|_| unused).for_each(|keys| keys.give_back(resource, bill));
        }
    }

    /// Whether it has to be known first what became of earlier checkpoints.
    pub(crate) fn is_full(&self) -> bool {
        self.open.len() == MAX_OPEN
    }

    /// Opens the [next](GrantBudget::next) checkpoint, behind the start with this serial number, before which so many pages are written. What it
    /// allows for near starts, by limit.
    pub(crate) fn open(
        &mut self,
        resource: &Resource,
        (now, behind): (Time, u64),
        at_once: &[ImmediateDemand],
        keys: Option<KeyBudgets>,
        pages: usize,
    ) -> Vec<Credit> {
        let credits = self.next_budgets(resource, now, at_once);
        let budget = Allowances::new(now + NEAR, credits.iter().copied());
        self.latest = self.next();
        self.open.push_back(Open { number: self.latest, behind, budget, keys });
        self.taken = Some(now);
        self.writes = 1 + pages as u64;
        self.urgency = Urgency::Idle;
        self.forget_large_calls(resource);
        credits
    }

    /// The store holds the checkpoint with this number or a later one.
    pub(crate) fn confirm(&mut self, number: CheckpointNumber) {
        self.confirmed = self.confirmed.max(number);
        self.open.retain(|open| open.number >= number);
        self.ride = None;
    }

    /// Nothing is granted until a checkpoint that is opened from now on is confirmed.
    pub(crate) fn doubt(&mut self) {
        self.trusted_from = CheckpointNumber(self.latest.0 + 1);
        self.urge(Urgency::ImmediateDemand);
        self.ride = None;
    }

    /// Whether this checkpoint was opened since the last doubt.
    pub(crate) fn settles_doubt(&self, number: CheckpointNumber) -> bool {
        number >= self.trusted_from
    }

    /// Whether a checkpoint is confirmed that was opened since the last doubt.
    pub(crate) fn is_trusted(&self) -> bool {
        self.confirmed >= self.trusted_from
    }

    /// The store does not take checkpoints.
    pub(crate) fn store_lost(&mut self, resource: &Resource, now: Time) {
        if let (OnStoreLoss::Ride(span), None) = (resource.spec().on_store_loss, &self.ride) {
            let credits = resource.limits().iter().map(|limit| limit.rate().refill_within(span));
            self.ride = Some(Allowances::new(now + span, credits));
        }
    }

    /// When the next checkpoint is to be opened.
    pub(crate) fn due(&self) -> Time {
        let Some(taken) = self.taken else { return Time::ORIGIN };
        let earliest = taken + Span::from_nanos(EARLIEST_RENEWAL.nanos() * self.writes);
        match self.urgency {
            Urgency::ImmediateDemand => taken,
            Urgency::Soon => earliest,
            Urgency::Usual if self.runs_low() => earliest,
            Urgency::Usual => earliest.max(taken + RENEWAL),
            Urgency::Idle => taken + IDLE_RENEWAL,
        }
    }

    /// Whether the next near start or so might not be covered.
    fn runs_low(&self) -> bool {
        let allowed = self.open.back().into_iter().flat_map(|latest| &latest.budget.limits);
        allowed.zip(&self.largest).any(|(allowance, largest)| allowance.runs_low(*largest))
    }

    /// For each limit what it can pay within the reservation's time, which is what it refills then or a call at least; or a
    /// little more than was granted in the time of the last checkpoint; and what might be granted at once.
    fn next_budgets(&self, resource: &Resource, now: Time, at_once: &[ImmediateDemand]) -> Vec<Credit> {
        let early = self.taken.is_some_and(|taken| now.since(taken) < EARLIEST_RENEWAL);
        let next = |(index, limit): (usize, &Limit)| {
            let refill = limit.rate().refill_within(resource.spec().reservation);
            let payable = (at_once[index].level + refill).max(Credit::ZERO);
            let usual = refill.max(self.largest[index]).min(payable);
            let used = self.open.back().map_or(Credit::ZERO, |latest| latest.budget.limits[index].expected(early));
            usual.max(used.min(payable)) + at_once[index].wanted
        };
        resource.limits().iter().enumerate().map(next).collect()
    }

    fn forget_large_calls(&mut self, resource: &Resource) {
        for (largest, limit) in self.largest.iter_mut().zip(resource.limits()) {
            *largest = (*largest - largest.divided_by(FADING)).max(limit.rate().credit(Amount::ONE));
        }
    }
}

fn credit(resource: &Resource, id: LimitId, amount: Amount) -> Credit {
    resource.limits()[id.index()].rate().credit(amount)
}
