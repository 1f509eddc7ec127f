//! What a successor must know.

use crate::bill::Bill;
use crate::credit::Credit;
use crate::permits::{Granted, Permit, State};
use crate::resource::{LimitId, Resource};
use crate::scheduler::Scheduler;
use crate::timeline::Key;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};

/// The state of a resource at an instant, by name, so that it outlives a change of limits.
///
/// Levels have every promise in them. A promise that is also listed in `permits` can be taken back
/// later; one that is not listed stays paid. So a snapshot whose list is shortened is still safe.
///
/// How full buckets have been is not in it: a call that started before the snapshot and needed less
/// than it was charged gives nothing back afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// All buckets.
    pub levels: Vec<LevelMark>,
    /// Remembered permits, the latest start first.
    pub permits: Vec<PermitMark>,
}

/// The level of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelMark {
    /// Its limit.
    pub limit: Name,
    /// Its level in millionths, with all promises paid.
    pub micros: i128,
}

/// One permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitMark {
    /// Its id.
    pub id: PermitId,
    /// Its start, in nanoseconds from the snapshot on; negative if it was before.
    pub start_nanos: i64,
    /// Its class.
    pub class: Name,
    /// What it was charged, by limit; nothing more can be given back when it is empty.
    pub bill: Vec<(Name, Amount)>,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Granted, and not heard of since.
    Open,
    /// Settled.
    Settled,
    /// Given back.
    Returned,
}

impl<R: Clone> Scheduler<R> {
    /// The state at `now`. Waiting requests are not in it: they are asked again.
    #[must_use]
    pub fn snapshot(&mut self, now: Time) -> Snapshot {
        Snapshot { levels: self.levels(now), permits: self.permit_marks(now) }
    }

    /// The buckets' part of [`Scheduler::snapshot`], which is small.
    #[must_use]
    pub fn levels(&mut self, now: Time) -> Vec<LevelMark> {
        self.ledger.advance(&self.resource, now);
        let limits = self.resource.limits().iter().enumerate();
        limits
            .map(|(index, limit)| {
                let level = self.ledger.level(&self.resource, LimitId(index as u8), now);
                LevelMark { limit: limit.name().clone(), micros: limit.rate().micros(level) }
            })
            .collect()
    }

    /// A scheduler at `now` that goes on from a snapshot which was taken at `then`.
    ///
    /// A limit that the snapshot does not know starts as the resource says. A level above a limit's
    /// capacity is capped.
    #[must_use]
    pub fn restore(resource: Resource, epoch: u64, now: Time, then: Time, snapshot: &Snapshot) -> Self {
        let mut scheduler = Scheduler::new(resource, epoch, now);
        for mark in &snapshot.levels {
            scheduler.restore_level(then, mark);
        }
        for mark in &snapshot.permits {
            scheduler.restore_permit(then, mark);
        }
        scheduler.ledger.advance(&scheduler.resource, now);
        scheduler.permits.expire(now);
        scheduler
    }

    /// A scheduler whose predecessor's state is lost: every bucket starts empty.
    #[must_use]
    pub fn cautious(resource: Resource, epoch: u64, now: Time) -> Self {
        let mut scheduler = Scheduler::new(resource, epoch, now);
        for index in 0..scheduler.resource.limits().len() {
            scheduler.ledger.reset(&scheduler.resource, LimitId(index as u8), now, Credit::ZERO);
        }
        scheduler
    }

    fn permit_marks(&self, now: Time) -> Vec<PermitMark> {
        let mut marks: Vec<PermitMark> =
            self.permits.iter().filter_map(|permit| self.permit_mark(now, permit)).collect();
        marks.sort_by(|a, b| b.start_nanos.cmp(&a.start_nanos).then_with(|| a.id.cmp(&b.id)));
        marks
    }

    fn permit_mark(&self, now: Time, permit: &Permit<R>) -> Option<PermitMark> {
        let (start, class, fate) = match &permit.state {
            State::Waiting(_) => return None,
            State::Returned => (now, self.resource.default_class(), Fate::Returned),
            State::Granted(granted) => (granted.key.at, granted.class, fate(granted)),
        };
        let bill = permit.bill.iter().map(|(id, amount)| (self.resource.limits()[id.index()].name().clone(), amount));
        Some(PermitMark {
            id: permit.id.clone(),
            start_nanos: signed_nanos(now, start),
            class: self.resource.classes()[class.index()].name.clone(),
            bill: if fate == Fate::Returned { Vec::new() } else { bill.collect() },
            fate,
        })
    }

    fn restore_level(&mut self, then: Time, mark: &LevelMark) {
        let limits = self.resource.limits();
        if let Some(index) = limits.iter().position(|limit| *limit.name() == mark.limit) {
            let level = limits[index].rate().credit_of_micros(mark.micros);
            self.ledger.reset(&self.resource, LimitId(index as u8), then, level);
        }
    }

    fn restore_permit(&mut self, then: Time, mark: &PermitMark) {
        if self.permits.find(&mark.id).is_some() {
            return;
        }
        let class = self.resource.class(&mark.class).unwrap_or(self.resource.default_class());
        let key = Key { at: shifted(then, mark.start_nanos), serial: self.next_serial() };
        let bill = self.known_part(&mark.bill);
        let granted = Granted { key, limited_by: None, class, settled: mark.fate == Fate::Settled };
        let state = if mark.fate == Fate::Returned { State::Returned } else { State::Granted(granted) };
        if mark.fate != Fate::Returned && key.at > then {
            self.ledger.promise_again(&self.resource, then, key, &bill, self.tier(class));
        }
        let slot = self.permits.insert(mark.id.clone(), bill, state);
        self.permits.started(slot, key.at);
    }

    fn known_part(&self, charges: &[(Name, Amount)]) -> Bill {
        let mut bill = Bill::new();
        for (name, amount) in charges {
            if let Some(index) = self.resource.limits().iter().position(|limit| limit.name() == name) {
                bill.set(LimitId(index as u8), *amount);
            }
        }
        bill
    }
}

fn fate(granted: &Granted) -> Fate {
    if granted.settled { Fate::Settled } else { Fate::Open }
}

fn signed_nanos(now: Time, start: Time) -> i64 {
    let ahead = i64::try_from(start.since(now).nanos()).unwrap_or(i64::MAX);
    let behind = i64::try_from(now.since(start).nanos()).unwrap_or(i64::MAX);
    ahead - behind
}

fn shifted(time: Time, nanos: i64) -> Time {
    let distance = Span::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { time - distance } else { time + distance }
}
