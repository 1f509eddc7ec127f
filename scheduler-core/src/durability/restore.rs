//! Going on from what a predecessor has written.

use super::key_snapshots::recorded;
use super::snapshot::{
    DebitSnapshot, Fate, KeyPage, KeySnapshot, KeysSnapshot, LevelSnapshot, PermitSnapshot, Snapshot,
};
use crate::arithmetic::{Credit, Rate};
use crate::ids::LimitId;
use crate::limits::{Bucket, PendingDebits, StartKey, Usage};
use crate::policy::{Bill, Limit, Resource};
use crate::scheduler::Scheduler;
use crate::scheduler::permits::{Granted, Stage, State};
use rampmeter_protocol::time::{Span, Time};

impl<R: Clone> Scheduler<R> {
    /// A scheduler at `now` that goes on from a snapshot which was taken at `then`.
    ///
    /// A limit that the snapshot does not know starts as the resource says. A level above a limit's
    /// capacity is capped. What was learned of a limit goes on to count where its policy is the same.
    #[must_use]
    pub fn restore(resource: Resource, epoch: u64, now: Time, then: Time, snapshot: &Snapshot) -> Self {
        let mut scheduler = Scheduler::new(resource, epoch, now);
        for mark in &snapshot.levels {
            scheduler.restore_level(then, mark);
        }
        scheduler.restore_keys(then, &snapshot.keys);
        for mark in &snapshot.freezes {
            scheduler.restore_freeze(then, mark);
        }
        for mark in &snapshot.permits {
            scheduler.restore_permit(then, mark);
        }
        scheduler.ledger.advance(now);
        scheduler.ledger.review(now);
        scheduler.permits.expire(now);
        scheduler
    }

    /// A scheduler whose predecessor's state is lost: every bucket starts empty.
    #[must_use]
    pub fn cautious(resource: Resource, epoch: u64, now: Time) -> Self {
        let mut scheduler = Scheduler::at_level(resource, epoch, now, |_| Credit::ZERO);
        scheduler.ledger.keys.drain(now, |_| true);
        scheduler
    }

    /// The same where what was restored may not be the latest that was ever written: what limits of short periods have in stock counts as
    /// spent, and their debts are debts. Limits of long periods and quotas, which would be empty for too long, keep what they have.
    #[must_use]
    pub fn without_stock(mut self, now: Time) -> Self {
        self.ledger.drain(now, |limit| !limit.is_long());
        self
    }

    /// A scheduler whose buckets are full, whatever the resource says of the start.
    #[must_use]
    pub fn full(resource: Resource, epoch: u64, now: Time) -> Self {
        Scheduler::at_level(resource, epoch, now, Limit::full)
    }

    fn at_level(resource: Resource, epoch: u64, now: Time, level: impl Fn(&Limit) -> Credit) -> Self {
        let levels: Vec<Credit> = resource.limits().iter().map(level).collect();
        let mut scheduler = Scheduler::new(resource, epoch, now);
        for (index, level) in levels.into_iter().enumerate() {
            scheduler.ledger.adaptive_mut(LimitId(index as u8)).reset(now, level, PendingDebits::default());
        }
        scheduler
    }

    fn restore_level(&mut self, then: Time, mark: &LevelSnapshot) {
        let Some(limit) = self.resource.limit(&mark.limit) else { return };
        let rate = *self.resource.limits()[limit.index()].rate();
        let book = self.ledger.adaptive_mut(limit);
        if mark.taken.as_ref().is_some_and(|taken| book.resume(then, taken)) {
            return;
        }
        if let Some(learned) = &mark.learned {
            book.resume_learning(then, learned);
        }
        book.reset(then, rate.credit_of_micros(mark.micros), heard(then, &rate, &mark.pending_debits));
    }

    fn restore_keys(&mut self, then: Time, marks: &KeysSnapshot) {
        let all_pages = marks.pages.iter().all(|page| page.keys.is_some());
        for id in self.resource.keyed_limits() {
            let limit = &self.resource.limits()[id.index()];
            let known = marks.known.iter().find(|known| known.limit == limit.spec().name);
            let empty_in = marks.others_empty_in.or(known.map(|_| 0));
            match (known.filter(|_| all_pages || !limit.lists_keys()), empty_in) {
                (Some(known), _) => {
                    let was = bucket(limit, then, known.micros, known.taken.as_ref());
                    self.ledger.keys.set_absent(id, was);
                }
                (None, Some(nanos)) => self.ledger.keys.set_absent_empty(id, then, shifted(then, nanos)),
                (None, None) => {}
            }
        }
        marks.pages.iter().for_each(|page| self.restore_page(then, page));
        for mark in &marks.listed {
            if let Some((limit, was)) = self.key_bucket_of(then, mark) {
                self.ledger.keys.restore(limit, mark.key.as_str().into(), then, was);
            }
        }
    }

    /// The keys of a page, with what each of them may have been granted since it was written.
    fn restore_page(&mut self, then: Time, page: &KeyPage) {
        let Some(keys) = &page.keys else { return };
        let taken = then - Span::from_nanos(page.age_nanos);
        let mut spent = vec![Credit::ZERO; self.resource.limits().len()];
        for (name, micros) in &page.spent {
            if let Some(limit) = self.resource.limit(name) {
                let rate = self.resource.limits()[limit.index()].rate();
                spent[limit.index()] = rate.credit_of_micros(i128::from(*micros));
            }
        }
        let restored = keys.iter().filter_map(|mark| {
            let (id, mut was) = self.key_bucket_of(taken, mark)?;
            let limit = &self.resource.limits()[id.index()];
            was.advance(limit, then);
            if was.is_as_new(limit, then) {
                return None;
            }
            let (micros, spans) = recorded(limit, &was, then, spent[id.index()]);
            Some((id, mark.key.as_str().into(), bucket(limit, then, micros, spans.as_ref())))
        });
        let restored: Vec<_> = restored.collect();
        let slots =
            restored.into_iter().map(|(limit, key, was)| self.ledger.keys.restore(limit, key, then, was)).collect();
        self.ledger.keys.add_page((page.id, taken, spent), slots);
    }

    /// The limit of a key, and its bucket as it was at `then`; none where there is no such limit.
    fn key_bucket_of(&self, then: Time, mark: &KeySnapshot) -> Option<(LimitId, Bucket)> {
        let id = self.resource.limit(&mark.limit)?;
        let limit = &self.resource.limits()[id.index()];
        limit.is_keyed().then(|| (id, bucket(limit, then, mark.micros, mark.taken.as_ref())))
    }

    fn restore_permit(&mut self, then: Time, mark: &PermitSnapshot) {
        if self.permits.find(&mark.id).is_some() {
            return;
        }
        let class = self.resource.class(&mark.class).unwrap_or(self.resource.default_class());
        let key = StartKey { at: shifted(then, mark.start_nanos), serial: self.next_serial() };
        let bill = self.known_part(mark);
        let stage = if mark.fate == Fate::Settled { Stage::Settled } else { Stage::Told };
        let granted = Granted::new(key, None, class, stage);
        let state = if mark.fate == Fate::Returned { State::Returned } else { State::Granted(granted) };
        let leases = self.leases_of(then, mark, key, &bill);
        if mark.fate == Fate::Open || mark.fate == Fate::Settled && key.at > then {
            self.ledger.restore_promise(then, key, &bill, self.tier(class), &leases);
        }
        let slot = self.permits.insert(mark.id.clone(), bill, state);
        self.permits.started(slot, leases.iter().map(|(_, end)| *end).fold(key.at, Time::max));
    }

    /// When the leases of a permit end.
    fn leases_of(&self, then: Time, mark: &PermitSnapshot, key: StartKey, bill: &Bill) -> Vec<(LimitId, Time)> {
        let lease = |(limit, period): (LimitId, Span)| {
            let name = &self.resource.limits()[limit.index()].spec().name;
            let told = mark.held_until.iter().find(|(held, _)| held == name);
            (limit, told.map_or(key.at + period, |(_, nanos)| shifted(then, *nanos)))
        };
        self.resource.leases(bill).map(lease).collect()
    }

    /// What was charged to limits that are there still, and have buckets of the same kind.
    fn known_part(&self, mark: &PermitSnapshot) -> Bill {
        let mut bill = Bill::new();
        let shared = mark.bill.iter().map(|(name, amount)| (name, None, *amount));
        let keyed = mark.keyed.iter().map(|(name, key, amount)| (name, Some(key.as_str()), *amount));
        for (name, key, amount) in shared.chain(keyed) {
            let Some(limit) = self.resource.limit(name) else { continue };
            match (key, self.resource.limits()[limit.index()].is_keyed()) {
                (None, false) => bill.set(limit, amount),
                (Some(key), true) => bill.charge(limit, Some(key.into()), amount),
                (None, true) | (Some(_), false) => {}
            }
        }
        bill
    }
}

/// A bucket of which this is told as it was at `then`.
fn bucket(limit: &Limit, then: Time, micros: i128, taken: Option<&Usage>) -> Bucket {
    let counted = taken.and_then(|taken| Bucket::from_usage(limit, then, taken));
    counted.unwrap_or_else(|| Bucket::new(limit, then, limit.rate().credit_of_micros(micros)))
}

/// Steps that are not in order, as no scheduler writes them, are withheld at their largest until the last of them ends.
fn heard(then: Time, rate: &Rate, marks: &[DebitSnapshot]) -> PendingDebits {
    let step =
        |mark: &DebitSnapshot| (then + Span::from_nanos(mark.nanos), rate.credit_of_micros(i128::from(mark.micros)));
    let steps: Vec<(Time, Credit)> = marks.iter().map(step).collect();
    if steps.is_sorted_by(|(a, more), (b, less)| a < b && more >= less) {
        return PendingDebits::new(steps);
    }
    let last = steps.iter().map(|(until, _)| *until).max();
    let most = steps.iter().map(|(_, credit)| *credit).max();
    PendingDebits::new(last.zip(most).into_iter().collect())
}

pub(crate) fn shifted(time: Time, nanos: i64) -> Time {
    let distance = Span::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { time - distance } else { time + distance }
}
