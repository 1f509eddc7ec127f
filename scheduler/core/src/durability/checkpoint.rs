//! Checkpoints, the exact state at the end of a term, and how a scheduler is restored from them.

use crate::checkpoint_number::CheckpointNumber;
use crate::durability::snapshot::{
    Fate, FreezeSnapshot, KeyPage, KeySnapshot, KeysSnapshot, LevelSnapshot, MAX_FAR_KEYS, MAX_KEYS_AT_STOP,
    PermitSnapshot, RateSnapshot, RecordSpace, Snapshot, encoded, encoded_key, keep_first,
};
use crate::fencing::{ImmediateDemand, KeyBudgets};
use crate::identity::Identity;
use crate::ledger::{Backlog, KeyBucket};
use crate::limits::{Bucket, BucketRecord, Freeze, NEAR, StartKey, UsageBlock};
use crate::offset::Offset;
use crate::permits::{Granted, Permit, Stage, State};
use crate::scheduler::Scheduler;
use rampmeter_policy::arithmetic::{Credit, Rate};
use rampmeter_policy::ids::{ClassId, ClientNumber, LimitId};
use rampmeter_policy::spec::MAX_PERIOD;
use rampmeter_policy::{Bill, KeyCharge, Limit, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// A state for the store that counts everything which may be granted under it as spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The number to pass to [`Event::CheckpointStored`](crate::event::Event::CheckpointStored).
    pub number: CheckpointNumber,
    /// The state, without permits.
    pub state: Snapshot,
}

pub(super) type SharedCharges = Vec<(Name, u64)>;
pub(super) type KeyCharges = Vec<(Name, String, u64)>;

impl<R: Clone> Scheduler<R> {
    /// Returns the checkpoint to write at `now`; `None` if the scheduler is not
    /// [fenced](Scheduler::fenced), or if too many checkpoints are unconfirmed.
    pub fn checkpoint(&mut self, now: Time) -> Option<Checkpoint> {
        self.advance(now);
        if !self.term.budget.may_open() {
            return None;
        }
        let mut space = self.record_space();
        let (freezes, unlisted) = self.freeze_snapshots(now, &mut space);
        let (new_pages, of_keys) = self.key_budgets(now, &mut space);
        let (key_budgets, listed) = of_keys.unzip();
        let immediate = self.immediate_demand(now);
        let number = self.term.budget.next();
        self.ledger.keys.pages.drop_empty(self.term.epoch(), number);
        let keys = self.fenced_keys(now, key_budgets.as_ref(), listed.unwrap_or_default(), &mut space, unlisted);
        let unsettled = self.unsettled_calls(now, space);
        let (last, pages) = (self.permits.last_serial, new_pages.len());
        let granted = self.term.budget.open(&self.resource, now, last, &immediate, key_budgets, pages);
        assert_eq!(granted.len(), self.resource.limits().len(), "each limit has a budget");
        let grants = granted.iter().map(|credit| UsageBlock { from: now, until: now + NEAR, credit: *credit });
        let levels = self.level_snapshots(grants, StartKey::LAST);
        let state = Snapshot { levels, keys, freezes, unsettled, new_pages, ..Snapshot::default() };
        Some(Checkpoint { number, state })
    }

    /// Returns the keys of a checkpoint. `listed` keys have budgets. Keys with far promises count
    /// as empty until their last promise, and every other key until near starts are past and
    /// `unlisted` freezes have ended.
    fn fenced_keys(
        &self,
        now: Time,
        budgets: Option<&KeyBudgets>,
        mut listed: Vec<KeySnapshot>,
        space: &mut RecordSpace,
        unlisted: Option<Time>,
    ) -> KeysSnapshot {
        let limits = self.resource.limits();
        let pages = budgets.and_then(|budgets| self.key_pages(now, space, |id| budgets.of_unlisted(id)));
        let budgets = budgets.filter(|_| pages.is_some() && unlisted.is_none());
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
        self.keys_snapshot(now, listed, pages.unwrap_or_default(), Some(others).max(unlisted), |limit| {
            has_budget(limit).map(|budgets| budgets.of_unlisted(limit))
        })
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

    pub(crate) fn near_level(&self, now: Time, limit: &Limit, bucket: &Bucket) -> Credit {
        // A window's next amount needs a checkpoint shortly before it comes, not earlier.
        let soon = self.resource.spec().horizon + self.resource.spec().reservation;
        bucket.near_level(limit, now, soon)
    }

    /// Returns what waiting requests could take of a limit at this level, with headrooms.
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

    /// Returns the state at `now` with at most `most` permits, without waiting requests: clients
    /// ask again. If there are more, or they take more than 128 MiB, promises and open calls come
    /// first. Call it at the end of a term, when nothing is granted any more: it reads every key,
    /// which takes a sixth of a second for a million.
    #[must_use]
    pub fn snapshot(&mut self, now: Time, most: usize) -> Snapshot {
        self.advance(now);
        // Pages need no budgets at the end of a term, so all other keys go to new ones.
        let used = self.ledger.keys.in_use(now, usize::MAX);
        let mut used = used.into_iter().map(|name| (name, Credit::ZERO)).collect();
        let new_pages = self.write_pages(now, usize::MAX, &mut used, &BTreeMap::new());
        let first = self.first_permits(most);
        let permits = first.iter().filter_map(|permit| self.permit_snapshot(now, permit));
        let mut room = RecordSpace::PERMITS;
        let permits = room.fitting(1, most, permits, encoded);
        assert!(permits.len() <= first.len() && first.len() <= most, "a snapshot has at most so many permits");
        let listed = first[..permits.len()].iter().filter_map(|permit| permit.granted());
        let listed = listed.filter(|granted| granted.starts_later(now)).map(|granted| granted.start).min();
        let nothing = std::iter::repeat(UsageBlock { from: now, until: now, credit: Credit::ZERO });
        let mut space = self.record_space();
        let (freezes, unlisted) = self.freeze_snapshots(now, &mut space);
        let levels = self.level_snapshots(nothing, listed.unwrap_or(StartKey::LAST));
        let keys = self.keys_at_stop(now, &mut space, unlisted);
        Snapshot { levels, keys, freezes, permits, unsettled: self.unsettled_calls(now, space), new_pages }
    }

    /// Returns the keys on no page. If there are too many, keys with long periods and low levels
    /// come first. Other keys are empty until `unlisted` freezes have ended.
    fn keys_at_stop(&self, now: Time, space: &mut RecordSpace, unlisted: Option<Time>) -> KeysSnapshot {
        let on_no_page = self.ledger.keys.iter().filter(|known| known.page.is_none());
        let buckets = on_no_page.map(|known| (known.in_force(self.resource.limits()), &*known.key));
        let used = buckets.filter(|((bucket, limit), _)| !bucket.is_as_new(limit, now));
        let rank = |(bucket, limit): (&Bucket, &Limit)| (limit.lists_keys(), bucket.empty_at(limit, now));
        let mut lowest: Vec<_> = used.map(|(in_force, key)| (rank(in_force), (in_force, key))).collect();
        keep_first(&mut lowest, MAX_KEYS_AT_STOP + 1, |(one, _), (other, _)| other.cmp(one));
        let snapshot = |(_, ((bucket, limit), key)): &(_, ((&Bucket, &Limit), &str))| {
            KeySnapshot::of(limit, key, bucket, now, Credit::ZERO)
        };
        let pages = self.key_pages(now, space, |_| Credit::ZERO);
        let has_pages = pages.is_some();
        let listed = space.fitting(1, MAX_KEYS_AT_STOP, lowest.iter().map(snapshot), encoded_key);
        let left_out = lowest.get(listed.len()).map(|(rank, _)| *rank);
        let is_long = |limit: LimitId| self.resource[limit].lists_keys();
        let known = |limit: LimitId| match left_out {
            Some((of_long_limit, _)) => !of_long_limit && is_long(limit) && has_pages,
            None => has_pages || !is_long(limit),
        };
        let empty = left_out.map(|(_, empty)| empty).or((!has_pages).then_some(now));
        let allowed = |limit| (known(limit) && unlisted.is_none()).then_some(Credit::ZERO);
        self.keys_snapshot(now, listed, pages.unwrap_or_default(), empty.max(unlisted), allowed)
    }

    /// Returns the permits to remember: promises, then calls in flight, then settled and returned
    /// ones; of each, those that start last.
    fn first_permits(&self, most: usize) -> Vec<&Permit<R>> {
        let rank = |permit: &Permit<R>| match &permit.state {
            State::Waiting(_) => None,
            State::Returned => Some((false, StartKey { at: Time::ORIGIN, serial: 0 })),
            State::Granted(granted) => Some((granted.is_open(), granted.start)),
        };
        let ranked = self.permits.iter().filter_map(|permit| rank(permit).map(|rank| (rank, permit)));
        let mut first: Vec<_> = ranked.collect();
        keep_first(&mut first, most, |(a, one), (b, other)| b.cmp(a).then_with(|| one.id.cmp(&other.id)));
        first.into_iter().map(|(_, permit)| permit).collect()
    }

    fn permit_snapshot(&self, now: Time, permit: &Permit<R>) -> Option<PermitSnapshot> {
        let (key, class, fate) = match &permit.state {
            State::Waiting(_) => return None,
            State::Returned => (None, self.resource.default_class(), Fate::Returned),
            State::Granted(granted) => {
                let fate = if granted.stage == Stage::Settled { Fate::Settled } else { Fate::Open };
                (Some(granted.start), granted.class, fate)
            }
        };
        let name = |id: LimitId| self.resource[id].spec().name.clone();
        let (bill, keyed) = if fate == Fate::Returned { Default::default() } else { self.recorded(&permit.bill) };
        let client = permit.bill.client;
        let client = (client != ClientNumber::default()).then(|| self.meter.names.name(client).to_string());
        let leases = key.into_iter().flat_map(|key| self.ledger.leases(now, key, &permit.bill));
        Some(PermitSnapshot {
            held_until: leases.map(|(id, end)| (name(id), Offset::between(now, end))).collect(),
            id: permit.id.clone(),
            start: Offset::between(now, key.map_or(now, |key| key.at)),
            class: self.resource.classes()[class.index()].name.clone(),
            client: client.filter(|_| fate == Fate::Open),
            bill,
            keyed,
            fate,
        })
    }

    /// Returns the charges by limit, and by limit and key. A unit without a charge may still turn
    /// out to have been used.
    pub(super) fn recorded(&self, bill: &Bill) -> (SharedCharges, KeyCharges) {
        let shared = bill.limits().filter(|id| bill.key_charge(*id).is_none());
        let name = |id: LimitId| self.resource[id].spec().name.clone();
        let key_charge = |charge: &KeyCharge| (name(charge.limit), charge.key.to_string(), charge.amount.micros());
        let keyed = bill.limits().filter_map(|id| bill.key_charge(id)).map(key_charge);
        (shared.map(|id| (name(id), bill.get(id).micros())).collect(), keyed.collect())
    }

    /// Creates a scheduler at `now` that continues from a snapshot taken at `then`.
    ///
    /// A limit without a snapshot starts as the resource says. Levels are capped at the capacity.
    #[must_use]
    pub fn restore(resource: Resource, epoch: Epoch, now: Time, then: Time, snapshot: &Snapshot) -> Self {
        let mut scheduler = Scheduler::new(resource, epoch, now);
        scheduler.take_over(now, then, snapshot);
        scheduler
    }

    /// Creates a scheduler whose predecessor's state is lost: every bucket starts empty.
    #[must_use]
    pub fn cautious(resource: Resource, epoch: Epoch, now: Time) -> Self {
        let mut scheduler = Scheduler::at_level(resource, epoch, now, |_| Credit::ZERO);
        scheduler.ledger.keys.drain(now, |_| true);
        scheduler
    }

    /// Creates a scheduler whose buckets are all full, whatever the resource says.
    #[must_use]
    pub fn full(resource: Resource, epoch: Epoch, now: Time) -> Self {
        Scheduler::at_level(resource, epoch, now, Limit::full)
    }

    fn at_level(resource: Resource, epoch: Epoch, now: Time, level: impl Fn(&Limit) -> Credit) -> Self {
        let mut scheduler = Scheduler::new(resource, epoch, now);
        for adaptive in &mut scheduler.ledger.adaptive_limits {
            adaptive.begin_with(|limit| Bucket::new(limit, now, level(limit)));
        }
        scheduler
    }

    /// Returns this scheduler after a restore from a record that may be outdated. The stock of
    /// limits with short periods counts as spent; debts stay. Limits with long periods and quotas
    /// keep their stock, because they would stay empty for too long.
    #[must_use]
    pub fn without_stock(mut self, now: Time) -> Self {
        self.ledger.drain(now, |limit| !limit.has_long_period());
        // Their settles may have given something back already.
        self.unsettled.clear();
        self
    }

    fn take_over(&mut self, now: Time, then: Time, snapshot: &Snapshot) {
        snapshot.levels.iter().for_each(|level| self.restore_level(then, level));
        self.restore_keys(then, &snapshot.keys);
        snapshot.freezes.iter().for_each(|freeze| self.restore_freeze(then, freeze));
        snapshot.permits.iter().for_each(|permit| self.restore_permit(then, permit));
        snapshot.unsettled.iter().for_each(|call| self.restore_unsettled(then, call));
        self.ledger.advance(now);
        self.ledger.review(now);
        self.permits.expire(now);
    }

    fn restore_level(&mut self, then: Time, known: &LevelSnapshot) {
        let Some(limit) = self.resource.limit(&known.limit) else { return };
        let record = BucketRecord {
            micros: known.micros.into(),
            pending_debits: known.pending_debits.clone(),
            usage: known.usage.clone(),
            rooms: known.rooms.clone(),
        };
        self.ledger.adaptive_mut(limit).begin_with(|limit| Bucket::from_record(limit, then, &record));
    }

    fn restore_keys(&mut self, then: Time, snapshots: &KeysSnapshot) {
        let all_pages = snapshots.pages.iter().all(|page| page.keys.is_some());
        for id in self.resource.keyed_limits() {
            let limit = &self.resource[id];
            let known = snapshots.known.iter().find(|known| known.limit == limit.spec().name);
            let empty_in = snapshots.others_empty_in.or(known.map(|_| Offset::ZERO));
            let absent = match (known.filter(|_| all_pages || !limit.lists_keys()), empty_in) {
                (Some(known), _) => {
                    Bucket::from_record(limit, then, &BucketRecord::of_key(known.micros, known.usage.as_ref()))
                }
                (None, Some(offset)) => Bucket::empty_until(limit, then, offset.after(then)),
                (None, None) => continue,
            };
            self.ledger.keys.set_absent(id, absent);
        }
        let rates = snapshots.rates.iter().filter_map(rate_by_limit).collect();
        snapshots.pages.iter().for_each(|page| self.restore_page(then, page, &rates));
        for known in &snapshots.listed {
            if let Some((limit, was)) = self.key_bucket_of(then, known, &rates) {
                self.ledger.keys.restore(limit, known.key.as_str().into(), then, was);
            }
        }
    }

    /// Restores the keys of a page, with the budget since it was written spent.
    fn restore_page(&mut self, then: Time, page: &KeyPage, rates: &BTreeMap<&Name, Rate>) {
        let Some(keys) = &page.keys else { return };
        let taken = then - page.age;
        let mut spent = vec![Credit::ZERO; self.resource.limits().len()];
        for (name, micros) in &page.spent {
            if let Some(limit) = self.resource.limit(name) {
                spent[limit.index()] = self.resource[limit].rate().credit_of_micros(i128::from(*micros));
            }
        }
        let mut slots = Vec::new();
        for known in keys {
            let Some((id, mut was)) = self.key_bucket_of(taken, known, rates) else { continue };
            let limit = &self.resource[id];
            was.advance(limit, then);
            if !was.is_as_new(limit, then) {
                let restored = Bucket::from_record(limit, then, &was.key_record(limit, then, spent[id.index()]));
                slots.push(self.ledger.keys.restore(id, known.key.as_str().into(), then, restored));
            }
        }
        self.ledger.keys.add_page(page.id, taken, spent, slots);
    }

    /// Returns the limit of a key and its bucket at `then`; `None` if the limit is gone.
    fn key_bucket_of(
        &self,
        then: Time,
        known: &KeySnapshot,
        rates: &BTreeMap<&Name, Rate>,
    ) -> Option<(LimitId, Bucket)> {
        let id = self.resource.limit(&known.limit)?;
        let limit = Some(&self.resource[id]).filter(|limit| limit.is_keyed())?;
        let mut record = BucketRecord::of_key(known.micros, known.usage.as_ref());
        if let Some(was) = rates.get(&known.limit).filter(|was| *was != limit.rate()) {
            record = record.after_rate(was, limit, then);
        }
        Some((id, Bucket::from_record(limit, then, &record)))
    }

    /// Restores a freeze of the snapshot at `then`. A single probe starts after its end.
    fn restore_freeze(&mut self, then: Time, snapshot: &FreezeSnapshot) {
        let Some(limit) = self.resource.limit(&snapshot.limit) else { return };
        let until = then + snapshot.ends_in;
        let freeze = if snapshot.ordered { Freeze::ordered(until) } else { Freeze::new(then, until, None) };
        match (&snapshot.key, self.resource[limit].is_keyed()) {
            (None, false) if snapshot.spent => self.ledger.adaptive_mut(limit).mark_spent_until(until),
            (None, false) => self.ledger.adaptive_mut(limit).update(|bucket, _| bucket.add_freeze(freeze)),
            (Some(key), true) => {
                let charge = KeyCharge { limit, key: key.as_str().into(), amount: Amount::ZERO };
                self.ledger.keys.update(then, &charge, |bucket, _| bucket.add_freeze(freeze));
            }
            (None, true) => self.ledger.keys.freeze_known(then, limit, until),
            (Some(_), false) => {}
        }
    }

    fn restore_permit(&mut self, then: Time, permit: &PermitSnapshot) {
        if self.permits.find(&permit.id).is_some() {
            return;
        }
        let class = self.resource.class(&permit.class).unwrap_or(self.resource.default_class());
        let key = StartKey { at: permit.start.after(then), serial: self.permits.next_serial() };
        let client = permit.client.as_ref().map(|client| self.meter.names.number(then, client));
        let bill = self.charges_of(&permit.bill, &permit.keyed).of_client(client.unwrap_or_default());
        let stage = if permit.fate == Fate::Settled { Stage::Settled } else { Stage::Sent };
        let granted = Granted::new(key, None, class, stage);
        let state = if permit.fate == Fate::Returned { State::Returned } else { State::Granted(granted) };
        let leases = self.leases_of(then, permit, key, &bill);
        if permit.fate == Fate::Open {
            self.ledger.restore_promise(then, key, &bill, self.resource.tier(class), &leases);
        }
        let end = leases.iter().map(|(_, end)| *end).fold(key.at, Time::max);
        let slot = self.permits.insert(permit.id.clone(), Identity::default(), bill, state);
        self.permits.forget_after(slot, end);
    }

    fn leases_of(&self, then: Time, permit: &PermitSnapshot, key: StartKey, bill: &Bill) -> Vec<(LimitId, Time)> {
        let lease = |(limit, period): (LimitId, Span)| {
            let name = &self.resource[limit].spec().name;
            let recorded_end = permit.held_until.iter().find(|(held, _)| held == name);
            (limit, recorded_end.map_or(key.at + period, |(_, end)| end.after(then)))
        };
        self.resource.leases(bill).map(lease).collect()
    }

    /// Returns the charges to limits that still exist and have the same kind of buckets.
    pub(super) fn charges_of(&self, shared: &SharedCharges, keyed: &KeyCharges) -> Bill {
        let mut bill = Bill::default();
        let shared = shared.iter().map(|(name, amount)| (name, None, *amount));
        let keyed = keyed.iter().map(|(name, key, amount)| (name, Some(key.as_str()), *amount));
        for (name, key, amount) in shared.chain(keyed) {
            let (Some(limit), Ok(amount)) = (self.resource.limit(name), Amount::from_micros(amount)) else { continue };
            if key.is_some() == self.resource[limit].is_keyed() {
                bill.charge(limit, key.map(Into::into), amount);
            }
        }
        bill.account = self.resource.account_charged(&bill);
        bill
    }
}

/// Returns the rate of a limit's keys; `None` if no limit can have it.
fn rate_by_limit(RateSnapshot { limit, capacity_micros, period }: &RateSnapshot) -> Option<(&Name, Rate)> {
    let capacity = Amount::from_micros(*capacity_micros).ok().filter(|capacity| *capacity > Amount::ZERO)?;
    let period = Some(*period).filter(|period| (Span::from_nanos(1)..=MAX_PERIOD).contains(period))?;
    Some((limit, Rate::new(capacity, period)))
}
