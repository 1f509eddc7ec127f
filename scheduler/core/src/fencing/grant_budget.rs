//! Limits grants to what every checkpoint allows that a successor may start from.
//!
//! The store holds a *checkpoint*, a state that counts as spent everything its writer may still
//! grant: the checkpoint's *budget*. A successor starts from it, so it has already paid for
//! whatever its predecessor may still grant. Checkpoints are written ahead of need; no request
//! waits for the store in normal operation. While the store is silent, near starts go on under a
//! checkpoint that all standbys hold.
//!
//! The budget covers near starts only. A far start is promised first, and sent once the store holds
//! a checkpoint that counts it (see `pending_answers`). A checkpoint has no permits: its levels and
//! keys contain the amounts of far starts.

use super::key_budgets::{Allowance, KeyBudgets};
use crate::checkpoint_number::CheckpointNumber;
use crate::limits::{CallMade, NEAR, StartKey};
use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::{Bill, KeyCharge, Limit, LimitSet, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use std::collections::VecDeque;

/// The interval of checkpoints while permits are granted: four writes a second.
const INTERVAL: Span = Span::from_millis(250);
/// The interval while no permits are granted, short enough for a standby to see a live leader.
const IDLE_INTERVAL: Span = Span::from_millis(1000);
/// The shortest interval, for a checkpoint with a low budget.
const SHORTEST_INTERVAL: Span = Span::from_millis(200);
/// The shortest interval for keys without a budget, and what each listed key adds to it.
const PROMPT_INTERVAL: Span = Span::from_millis(20);
const PROMPT_INTERVAL_PER_KEY: Span = Span::from_nanos(50_000);
/// Bound on open checkpoints. Further ones wait until the store or the standbys hold a later one.
const MAX_OPEN: usize = 8;
/// With each checkpoint, the size of the largest call decays by one part in this many.
const DECAY_PART: u64 = 8;

/// Returns the cost of a call of which nothing is known: a unit, unless a crash would lose much by it.
fn least_call(limit: &Limit) -> Credit {
    if limit.is_scarce() { Credit::ZERO } else { limit.rate().credit(Amount::ONE) }
}

/// The checkpoints that a successor may start from, and what is left of their budgets. Every grant
/// is within the budget of each open checkpoint. Without a store, no checkpoint is ever open, and
/// every grant is covered.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrantBudget {
    open: VecDeque<OpenCheckpoint>,
    /// The latest checkpoint that the store is known to hold.
    pub(crate) confirmed: CheckpointNumber,
    /// The latest checkpoint that all standbys of the stored record hold.
    witnessed: CheckpointNumber,
    /// Checkpoints before this one allow no grants. `None` without a store.
    trusted_from: Option<CheckpointNumber>,
    latest: CheckpointNumber,
    opened_at: Option<Time>,
    /// When the budgets of idle keys were last lowered.
    faded_at: Time,
    /// The number of writes for the latest checkpoint, including its pages.
    writes: u64,
    /// For each limit, the largest recent grant; decays with each checkpoint.
    pub(crate) largest: Vec<Credit>,
    how_soon: CheckpointDue,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum CheckpointDue {
    #[default]
    /// Only a standby that watches for a live leader needs the checkpoint.
    Idle,
    Usual,
    /// A request waits for a far start, or a successor must learn of a change.
    Soon,
    Prompt,
    /// A request waits for budget, or a doubt stops all grants.
    Immediate,
}

/// What is left of a budget for starts until `until`.
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

    fn lacking(&self, resource: &Resource, bill: &Bill) -> Option<LimitId> {
        let lacks = |(id, amount): &(LimitId, Amount)| !self.limits[id.index()].covers(resource.credit(*id, *amount));
        bill.shared().find(lacks).map(|(id, _)| id)
    }

    fn charge(&mut self, resource: &Resource, bill: &Bill) {
        for (id, amount) in bill.shared() {
            self.limits[id.index()].charge(resource.credit(id, amount));
        }
    }

    fn give_back(&mut self, resource: &Resource, amounts: impl Iterator<Item = (LimitId, Amount)>) {
        amounts.for_each(|(id, amount)| self.limits[id.index()].give_back(resource.credit(id, amount)));
    }
}

#[derive(Clone, Debug)]
struct OpenCheckpoint {
    number: CheckpointNumber,
    /// The serial number of the last start before it.
    last_serial: u64,
    budget: Allowances,
    /// `None` if keys need no budget.
    keys: Option<KeyBudgets>,
}

/// The amount of a limit that waiting requests could use at once, and the level for near starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImmediateDemand {
    pub(crate) wanted: Credit,
    pub(crate) level: Credit,
}

impl GrantBudget {
    pub(super) fn new(resource: &Resource) -> Self {
        let largest = resource.limits().iter().map(least_call).collect();
        GrantBudget { writes: 1, largest, ..GrantBudget::default() }
    }

    /// Adds a store that holds no checkpoint yet, so that nothing is allowed.
    pub(super) fn fenced(self) -> Self {
        GrantBudget { trusted_from: Some(self.next()), ..self }
    }

    pub(super) fn after(before: &GrantBudget, resource: &Resource) -> Self {
        let GrantBudget { confirmed, witnessed, trusted_from, latest, opened_at, .. } = *before;
        let new = GrantBudget::new(resource);
        let mut after = GrantBudget { confirmed, witnessed, trusted_from, latest, opened_at, ..new };
        after.doubt();
        after
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.trusted_from.is_some()
    }

    /// Whether every open checkpoint allows a permit that starts at `start`.
    pub(crate) fn covers(&self, resource: &Resource, bill: &Bill, start: Time) -> bool {
        if bill.is_empty() {
            return true;
        }
        self.is_trusted()
            && !bill.keyed().any(|charge| self.lacks_key(resource, charge))
            && self.open.iter().all(|open| open.budget.covers(resource, bill, start))
    }

    /// Returns the number of the next checkpoint, which will count the starts promised now.
    pub(crate) fn next(&self) -> CheckpointNumber {
        CheckpointNumber(self.latest.0 + 1)
    }

    /// Whether the store surely holds this checkpoint, and no other leader has followed it.
    pub(crate) fn is_stored(&self, number: CheckpointNumber) -> bool {
        self.is_trusted() && self.confirmed >= number
    }

    pub(crate) fn lacks_key(&self, resource: &Resource, charge: &KeyCharge) -> bool {
        self.open.iter().filter_map(|open| open.keys.as_ref()).any(|keys| !keys.cover(resource, charge))
    }

    pub(crate) fn note_key_shortage(&mut self) {
        self.hasten(CheckpointDue::Prompt);
    }

    /// Returns the limit without enough budget for a `bill` that is not covered.
    pub(crate) fn lacking(&self, resource: &Resource, bill: &Bill) -> Option<LimitId> {
        let lacks = self.open.iter().find_map(|open| open.budget.lacking(resource, bill));
        lacks.or_else(|| bill.charged().next())
    }

    /// Notes that `bill`, an option of `whole`, could start in `ahead` with more budget; the sooner,
    /// the more urgent.
    pub(crate) fn note_shortage(&mut self, resource: &Resource, whole: &Bill, bill: &Bill, ahead: Span) {
        if whole.alternatives.is_some() {
            // While it waits, it counts at each account and in each way in parts only.
            self.note_size(resource, bill);
        }
        let lacks_key = bill.keyed().any(|charge| self.lacks_key(resource, charge));
        self.hasten(match () {
            () if ahead > SHORTEST_INTERVAL => CheckpointDue::Soon,
            () if lacks_key => CheckpointDue::Prompt,
            () => CheckpointDue::Immediate,
        });
    }

    /// Makes the next checkpoint due soon, as a successor has to know what has just happened.
    pub(crate) fn hasten_checkpoint(&mut self) {
        self.hasten(CheckpointDue::Soon);
    }

    fn hasten(&mut self, how_soon: CheckpointDue) {
        self.how_soon = self.how_soon.max(how_soon);
    }

    /// Whether a checkpoint at `now` lowers the budgets of idle keys: not if it comes early.
    pub(crate) fn fades(&self, now: Time) -> bool {
        now.since(self.faded_at) >= SHORTEST_INTERVAL
    }

    pub(crate) fn key_budgets(&self) -> Option<&KeyBudgets> {
        self.open.back()?.keys.as_ref()
    }

    /// Charges a grant, or usage in excess of one, that starts at `start`; only near starts count.
    pub(crate) fn charge(&mut self, resource: &Resource, bill: &Bill, start: Time) {
        for open in self.open.iter_mut().filter(|open| start <= open.budget.until) {
            open.budget.charge(resource, bill);
            open.keys.iter_mut().for_each(|keys| keys.charge(resource, bill));
        }
        if !bill.is_empty() {
            self.hasten(CheckpointDue::Usual);
        }
        self.note_size(resource, bill);
    }

    fn note_size(&mut self, resource: &Resource, bill: &Bill) {
        for (id, amount) in bill.amounts() {
            let largest = &mut self.largest[id.index()];
            *largest = resource.credit(id, amount).max(*largest);
        }
    }

    /// Whether every open checkpoint still covers the renewal of a call in flight.
    pub(crate) fn covers_renewals(&self, now: Time) -> bool {
        self.is_trusted() && self.open.iter().all(|open| now <= open.budget.until)
    }

    /// Gives the budget of a finished call back to the open checkpoints. `places` are the limits
    /// whose leases it held.
    ///
    /// Open checkpoints count a call in flight, by their state or by its charge, so another call
    /// may take its place. A later checkpoint may miss a call with an expired lease, so such a call
    /// returns no place. If the call was not `made`, its charge returns to the checkpoints that
    /// were open when it was granted; later ones count it as spent until its own start only.
    pub(crate) fn release(
        &mut self,
        resource: &Resource,
        key: StartKey,
        bill: &Bill,
        places: LimitSet,
        made: CallMade,
    ) {
        for open in self.open.iter_mut().filter(|open| key.at <= open.budget.until) {
            let unused = made == CallMade::No && open.last_serial < key.serial;
            let returns = |limit| unused || places.has(limit);
            open.budget.give_back(resource, bill.shared().filter(|(limit, _)| returns(*limit)));
            open.keys.iter_mut().for_each(|keys| keys.give_back(resource, bill, returns));
        }
    }

    /// Whether there is a store, and room for another open checkpoint.
    pub(crate) fn may_open(&self) -> bool {
        self.is_fenced() && self.open.len() < MAX_OPEN
    }

    /// Opens the [next](GrantBudget::next) checkpoint, which writes `pages` new pages. The last
    /// start before it has the number `last_serial`. Returns its budget for near starts, by limit.
    pub(crate) fn open(
        &mut self,
        resource: &Resource,
        now: Time,
        last_serial: u64,
        immediate: &[ImmediateDemand],
        keys: Option<KeyBudgets>,
        pages: usize,
    ) -> Vec<Credit> {
        assert!(self.may_open(), "more checkpoints are open than may be");
        assert_eq!(immediate.len(), resource.limits().len(), "each limit has a demand");
        let credits = self.next_budgets(resource, now, immediate);
        let budget = Allowances::new(now + NEAR, credits.iter().copied());
        self.latest = self.next();
        assert!(self.open.back().is_none_or(|before| before.number < self.latest), "checkpoints are numbered upwards");
        self.open.push_back(OpenCheckpoint { number: self.latest, last_serial, budget, keys });
        if self.fades(now) {
            self.faded_at = now;
        }
        self.opened_at = Some(now);
        self.writes = 1 + pages as u64;
        self.how_soon = CheckpointDue::Idle;
        self.decay_largest(resource);
        credits
    }

    pub(super) fn confirm(&mut self, number: CheckpointNumber) {
        assert!(number <= self.latest, "the store holds only checkpoints that were opened");
        self.confirmed = self.confirmed.max(number);
        self.open.retain(|open| open.number >= number);
    }

    /// Continues under a checkpoint that every possible successor has. Returns false without a
    /// store, or while it holds none of this term's checkpoints.
    pub(crate) fn witness(&mut self, number: CheckpointNumber) -> bool {
        assert!(number <= self.latest, "standbys hold only checkpoints that were opened");
        let may = self.is_fenced() && self.confirmed > CheckpointNumber::default();
        if may {
            self.witnessed = self.witnessed.max(number);
            self.open.retain(|open| open.number >= number);
        }
        may
    }

    /// Closes a checkpoint that the store surely does not hold, and makes the next one due soon.
    pub(super) fn refuse(&mut self, number: CheckpointNumber) {
        self.open.retain(|open| open.number != number);
        self.hasten(CheckpointDue::Soon);
    }

    pub(crate) fn doubt(&mut self) {
        self.trusted_from = self.trusted_from.map(|_| self.next());
        self.hasten(CheckpointDue::Immediate);
    }

    /// Whether a checkpoint opened after the last doubt is stored or witnessed, so that no other
    /// leader can have followed since.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted_from.is_none_or(|from| self.confirmed.max(self.witnessed) >= from)
    }

    /// Returns when to write the next checkpoint; `None` without a store.
    pub(crate) fn next_checkpoint(&self) -> Option<Time> {
        self.is_fenced().then(|| self.opened_at.map_or(Time::ORIGIN, |opened_at| self.due_after(opened_at)))
    }

    fn due_after(&self, opened_at: Time) -> Time {
        let earliest = opened_at + Span::from_nanos(SHORTEST_INTERVAL.nanos() * self.writes);
        match self.how_soon {
            CheckpointDue::Immediate => opened_at,
            CheckpointDue::Soon => earliest,
            CheckpointDue::Prompt => earliest.min(opened_at + self.prompt_interval()),
            CheckpointDue::Usual if self.runs_low() => earliest,
            CheckpointDue::Usual => earliest.max(opened_at + INTERVAL),
            CheckpointDue::Idle => opened_at + IDLE_INTERVAL,
        }
    }

    /// Returns how soon a key gets a budget: later if checkpoints are large.
    fn prompt_interval(&self) -> Span {
        let listed = self.key_budgets().map_or(0, |budgets| budgets.keys.len());
        Span::from_nanos(PROMPT_INTERVAL.nanos() + PROMPT_INTERVAL_PER_KEY.nanos() * listed as u64)
    }

    fn runs_low(&self) -> bool {
        let allowed = self.open.back().into_iter().flat_map(|latest| &latest.budget.limits);
        allowed.zip(&self.largest).any(|(allowance, largest)| allowance.runs_low(*largest))
    }

    /// Returns the next budget of each limit: the highest of the reservation's refill, the largest
    /// recent call and recent demand, but at most what the bucket can pay, plus immediate demand.
    fn next_budgets(&self, resource: &Resource, now: Time, immediate: &[ImmediateDemand]) -> Vec<Credit> {
        let early = self.opened_at.is_some_and(|opened_at| now.since(opened_at) < SHORTEST_INTERVAL);
        let next = |(index, limit): (usize, &Limit)| {
            let refill = limit.rate().refill_within(resource.spec().reservation);
            let payable = (immediate[index].level + refill).max(Credit::ZERO);
            let usual = refill.max(self.largest[index]).min(payable);
            let used = self.open.back().map_or(Credit::ZERO, |latest| latest.budget.limits[index].expected(early));
            usual.max(used.min(payable)) + immediate[index].wanted
        };
        resource.limits().iter().enumerate().map(next).collect()
    }

    fn decay_largest(&mut self, resource: &Resource) {
        for (largest, limit) in self.largest.iter_mut().zip(resource.limits()) {
            *largest = (*largest - largest.divided_by(DECAY_PART)).max(least_call(limit));
        }
    }
}
