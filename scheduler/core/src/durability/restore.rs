//! Restores a scheduler from a snapshot.

use super::snapshot::{
    Fate, FreezeSnapshot, KeyPage, KeySnapshot, KeysSnapshot, LevelSnapshot, PermitSnapshot, RateSnapshot, Snapshot,
};
use crate::arithmetic::{Credit, Offset, Rate};
use crate::identity::Identity;
use crate::ids::LimitId;
use crate::limits::{Bucket, Freeze, StartKey};
use crate::permits::{Granted, Stage, State};
use crate::policy::{Bill, KeyCharge, Limit, MAX_PERIOD, Resource};
use crate::scheduler::Scheduler;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

impl<R: Clone> Scheduler<R> {
    /// A scheduler at `now` that continues from a snapshot taken at `then`.
    ///
    /// A limit without a snapshot starts as the resource says. Levels are capped at the capacity.
    /// Lessons count for limits with the same policy.
    #[must_use]
    pub fn restore(resource: Resource, epoch: Epoch, now: Time, then: Time, snapshot: &Snapshot) -> Self {
        let mut scheduler = Scheduler::new(resource, epoch, now);
        scheduler.take_over(now, then, snapshot);
        scheduler
    }

    /// A scheduler whose predecessor's state is lost: every bucket starts empty.
    #[must_use]
    pub fn cautious(resource: Resource, epoch: Epoch, now: Time) -> Self {
        let mut scheduler = Scheduler::at_level(resource, epoch, now, |_| Credit::ZERO);
        scheduler.ledger.keys.drain(now, |_| true);
        scheduler
    }

    /// This scheduler after a restore from a record that may be outdated. The stock of limits with
    /// short periods counts as spent; debts stay. Limits with long periods and quotas keep their
    /// stock, because they would stay empty for too long.
    #[must_use]
    pub fn without_stock(mut self, now: Time) -> Self {
        self.ledger.drain(now, |limit| !limit.has_long_period());
        self
    }

    /// A scheduler whose buckets are all full, whatever the resource says.
    #[must_use]
    pub fn full(resource: Resource, epoch: Epoch, now: Time) -> Self {
        Scheduler::at_level(resource, epoch, now, Limit::full)
    }

    fn at_level(resource: Resource, epoch: Epoch, now: Time, level: impl Fn(&Limit) -> Credit) -> Self {
        let mut scheduler = Scheduler::new(resource, epoch, now);
        let levels: Vec<Credit> = scheduler.resource().limits().iter().map(level).collect();
        for (index, level) in levels.into_iter().enumerate() {
            scheduler.ledger.adaptive_mut(LimitId::of_index(index)).set_level(now, level);
        }
        scheduler
    }

    fn take_over(&mut self, now: Time, then: Time, snapshot: &Snapshot) {
        snapshot.levels.iter().for_each(|level| self.restore_level(then, level));
        self.restore_keys(then, &snapshot.keys);
        snapshot.freezes.iter().for_each(|freeze| self.restore_freeze(then, freeze));
        snapshot.permits.iter().for_each(|permit| self.restore_permit(then, permit));
        self.ledger.advance(now);
        self.ledger.review(now);
        self.permits.expire(now);
    }

    fn restore_level(&mut self, then: Time, known: &LevelSnapshot) {
        let Some(limit) = self.resource.limit(&known.limit) else { return };
        self.ledger.adaptive_mut(limit).resume_bucket(then, &known.record());
    }

    fn restore_keys(&mut self, then: Time, snapshots: &KeysSnapshot) {
        let all_pages = snapshots.pages.iter().all(|page| page.keys.is_some());
        for id in self.resource.keyed_limits() {
            let limit = &self.resource[id];
            let known = snapshots.known.iter().find(|known| known.limit == limit.spec().name);
            let empty_in = snapshots.others_empty_in.or(known.map(|_| Offset::ZERO));
            let absent = match (known.filter(|_| all_pages || !limit.lists_keys()), empty_in) {
                (Some(known), _) => Bucket::from_record(limit, then, &known.record()),
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

    /// The limit of a key and its bucket at `then`; none if the limit is gone.
    fn key_bucket_of(
        &self,
        then: Time,
        known: &KeySnapshot,
        rates: &BTreeMap<&Name, Rate>,
    ) -> Option<(LimitId, Bucket)> {
        let id = self.resource.limit(&known.limit)?;
        let limit = Some(&self.resource[id]).filter(|limit| limit.is_keyed())?;
        let record = match rates.get(&known.limit).filter(|was| *was != limit.rate()) {
            Some(was) => known.record().after_rate(was, limit, then),
            None => known.record(),
        };
        Some((id, Bucket::from_record(limit, then, &record)))
    }

    /// Restores a freeze of the snapshot at `then`. A single probe starts after its end.
    fn restore_freeze(&mut self, then: Time, snapshot: &FreezeSnapshot) {
        let Some(limit) = self.resource.limit(&snapshot.limit) else { return };
        let until = then + snapshot.ends_in;
        match (&snapshot.key, self.resource[limit].is_keyed()) {
            (None, false) if snapshot.spent => self.ledger.adaptive_mut(limit).mark_spent_until(until),
            (None, false) if snapshot.ordered => {
                self.ledger.freeze_by_order(limit, until, until);
            }
            (None, false) => {
                self.ledger.adaptive_mut(limit).update(|bucket, _| bucket.add_freeze(Freeze::new(then, until, None)));
            }
            (Some(key), true) => {
                let charge = KeyCharge { limit, key: key.as_str().into(), amount: Amount::ZERO };
                self.ledger.keys.update(then, &charge, |bucket, _| bucket.add_freeze(Freeze::new(then, until, None)));
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
        let client = permit.client.as_ref().map(|client| self.meter.number(then, client));
        let bill = self.charges_of(permit).of_client(client.unwrap_or_default());
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

    /// The charges to limits that still exist and have the same kind of buckets.
    fn charges_of(&self, permit: &PermitSnapshot) -> Bill {
        let mut bill = Bill::new();
        let shared = permit.bill.iter().map(|(name, amount)| (name, None, *amount));
        let keyed = permit.keyed.iter().map(|(name, key, amount)| (name, Some(key.as_str()), *amount));
        for (name, key, amount) in shared.chain(keyed) {
            let (Some(limit), Ok(amount)) = (self.resource.limit(name), Amount::from_micros(amount)) else { continue };
            match (key, self.resource[limit].is_keyed()) {
                (None, false) => bill.set(limit, amount),
                (Some(key), true) => bill.charge(limit, Some(key.into()), amount),
                (None, true) | (Some(_), false) => {}
            }
        }
        bill
    }
}

/// The rate of a limit's keys; `None` if no limit can have it.
fn rate_by_limit(RateSnapshot { limit, capacity_micros, period }: &RateSnapshot) -> Option<(&Name, Rate)> {
    let capacity = Amount::from_micros(*capacity_micros).ok().filter(|capacity| *capacity > Amount::ZERO)?;
    let period = Some(*period).filter(|period| (Span::from_nanos(1)..=MAX_PERIOD).contains(period))?;
    Some((limit, Rate::new(capacity, period)))
}
