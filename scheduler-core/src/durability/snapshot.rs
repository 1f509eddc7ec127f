//! What a successor must know.

use super::key_budgets::told;
pub use super::key_pages::PageId;
pub use super::learned::{LearnedMark, Policy};
use super::level_marks::ListedPromises;
use crate::ids::LimitId;
use crate::ledger::{Bill, KeyBucket, MOST_AT_STOP, ROOM, fitting, keep_first};
use crate::limits::{Bucket, Credit, Key, Rate, Withheld, distance};
pub use crate::limits::{FreezeMark, Taken, TakenSpan};
use crate::permits::Granted;
use crate::permits::Permit;
use crate::permits::Stage;
use crate::permits::State;
use crate::policy::{Limit, Resource};
use crate::scheduler::Scheduler;
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
    /// All buckets without keys.
    pub levels: Vec<LevelMark>,
    /// Those of keys.
    pub keys: KeyMarks,
    /// What the upstream has asked to wait with.
    pub freezes: Vec<FreezeMark>,
    /// Remembered permits, the latest start first, and then those that were given back.
    pub permits: Vec<PermitMark>,
    /// What the store has to hold before it: pages that it names.
    pub new_pages: Vec<NewPage>,
}

/// The buckets of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyMarks {
    /// Those that are known.
    pub listed: Vec<KeyMark>,
    /// Limits of which it is known how all others are.
    pub known: Vec<LevelMark>,
    /// In how many nanoseconds from the snapshot on all others are empty; negative if they were before. Full where this is left out.
    pub others_empty_in: Option<i64>,
    /// Where more keys are known, the oldest page first: what is on a later one counts, and what is listed here most of all.
    pub pages: Vec<KeyPage>,
}

/// Keys that rest: told once, and named in every mark since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPage {
    /// Where it is.
    pub id: PageId,
    /// How many nanoseconds before the snapshot its keys were so.
    pub age_nanos: u64,
    /// What each of its keys may have been granted since, in millionths by limit.
    pub spent: Vec<(Name, u64)>,
    /// Its keys; `None` as long as nobody has read them, or if they are lost.
    pub keys: Option<Vec<KeyMark>>,
}

/// A page that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPage {
    /// Where.
    pub id: PageId,
    /// The keys, as they are now.
    pub keys: Vec<KeyMark>,
}

/// The level of a key's bucket, with everything that was promised paid, and nothing else to be granted until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyMark {
    /// Its limit.
    pub limit: Name,
    /// Its key.
    pub key: String,
    /// Its level in millionths.
    pub micros: i128,
    /// What is taken, where the limit counts something else than tokens.
    pub taken: Option<Taken>,
}

/// The level of a bucket without keys, or of each key's that is not known one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelMark {
    /// Its limit.
    pub limit: Name,
    /// Its level in millionths, with all promises paid.
    pub micros: i128,
    /// What is taken, where the limit counts something else than tokens; its level says nothing then.
    pub taken: Option<Taken>,
    /// What was learned of how its upstream keeps it, if that is anything.
    pub learned: Option<LearnedMark>,
    /// What a successor withholds because it may have been promised for later; ends ascend, amounts do not.
    pub withheld: Vec<WithheldMark>,
}

/// A step of what is withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithheldMark {
    /// Until when, in nanoseconds from the snapshot on.
    pub nanos: u64,
    /// How much, in millionths.
    pub micros: u64,
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
    /// What it was charged, by limit and key.
    pub keyed: Vec<(Name, String, Amount)>,
    /// Of the limits that its call holds a place of, when its lease ends, in nanoseconds from the snapshot on. Where that is left
    /// out, it was never renewed.
    pub held_until: Vec<(Name, i64)>,
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
    /// The state at `now`, with `most` permits at most. Waiting requests are not in it: they are asked again.
    #[must_use]
    pub fn snapshot(&mut self, now: Time, most: usize) -> Snapshot {
        self.ledger.advance(now);
        let new_pages = self.turn_all_pages(now);
        let permits = self.latest_permits(most);
        let listed = ListedPromises::of(&self.resource, now, &permits);
        let permits = permits.into_iter().filter_map(|(_, permit)| self.permit_mark(now, permit)).collect();
        let nothing = vec![Credit::ZERO; self.resource.limits().len()];
        let (levels, keys) = (self.level_marks(now, (now, &nothing), &listed), self.keys_at_stop(now));
        Snapshot { levels, keys, freezes: self.freeze_marks(now), permits, new_pages }
    }

    /// The buckets of keys that are on no page: those of long limits first, and the lowest first where there are too many to list.
    fn keys_at_stop(&self, now: Time) -> KeyMarks {
        let limits = self.resource.limits();
        let limit_of = |known: &KeyBucket| &limits[known.limit.index()];
        let is_told = |known: &&KeyBucket| {
            let limit = limit_of(known);
            known.page.is_none() && !known.bucket.is_as_new(limit, now)
        };
        let rank = |known: &KeyBucket| {
            let limit = limit_of(known);
            (limit.lists_keys(), known.bucket.empty_at(limit, now))
        };
        let told = self.ledger.keys.iter().filter(is_told);
        let mut lowest: Vec<_> = told.map(|known| (rank(known), known)).collect();
        keep_first(&mut lowest, MOST_AT_STOP + 1, |(one, _), (other, _)| other.cmp(one));
        let mark =
            |(_, known): &(_, &KeyBucket)| KeyMark::of(limit_of(known), &known.key, &known.bucket, now, Credit::ZERO);
        let listed = fitting(MOST_AT_STOP, ROOM, lowest.iter().map(mark));
        let left_out = lowest.get(listed.len()).map(|(rank, _)| *rank);
        let known = |limit: LimitId| {
            left_out.is_none_or(|(of_long_limit, _)| !of_long_limit && limits[limit.index()].lists_keys())
        };
        let pages = self.key_pages(now, |_| Credit::ZERO);
        let empty = left_out.map(|(_, empty)| empty);
        self.key_marks(now, listed, pages, empty, |limit| known(limit).then_some(Credit::ZERO))
    }

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
        scheduler.ledger.keys.empty(now, |_| true);
        scheduler
    }

    /// The same where what was restored may not be the latest that was ever written: what limits of short periods have in stock counts as
    /// spent, and their debts are debts. Limits of long periods and quotas, which would be empty for too long, keep what they have.
    #[must_use]
    pub fn without_stock(mut self, now: Time) -> Self {
        self.ledger.empty(now, |limit| !limit.is_long());
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
            scheduler.ledger.book_mut(LimitId(index as u8)).reset(now, level, Withheld::default());
        }
        scheduler
    }

    /// Those of the latest starts, where there are too many.
    fn latest_permits(&self, most: usize) -> Vec<(Time, &Permit<R>)> {
        let start = |permit: &'_ Permit<R>| match &permit.state {
            State::Waiting(_) => None,
            State::Returned => Some(Time::ORIGIN),
            State::Granted(granted) => Some(granted.key.at),
        };
        let mut latest: Vec<_> =
            self.permits.iter().filter_map(|permit| start(permit).map(|start| (start, permit))).collect();
        keep_first(&mut latest, most, |(a, first), (b, second)| b.cmp(a).then_with(|| first.id.cmp(&second.id)));
        latest
    }

    fn permit_mark(&self, now: Time, permit: &Permit<R>) -> Option<PermitMark> {
        let (key, class, fate) = match &permit.state {
            State::Waiting(_) => return None,
            State::Returned => (None, self.resource.default_class(), Fate::Returned),
            State::Granted(granted) if granted.stage == Stage::Settled => {
                (Some(granted.key), granted.class, Fate::Settled)
            }
            State::Granted(granted) => (Some(granted.key), granted.class, Fate::Open),
        };
        // A unit that nothing was charged for may still turn out to have been used.
        let shared = permit.bill.reached().limits().filter(|id| permit.bill.key_of(*id).is_none());
        let name = |id: LimitId| self.resource.limits()[id.index()].spec().name.clone();
        let bill = shared.map(|id| (name(id), permit.bill.get(id)));
        let keyed = permit.bill.all_keyed().map(|charge| (name(charge.limit), charge.key.to_string(), charge.amount));
        let leases = key.into_iter().flat_map(|key| self.ledger.leases(now, key, &permit.bill));
        Some(PermitMark {
            held_until: leases.map(|(id, end)| (name(id), distance(now, end))).collect(),
            id: permit.id.clone(),
            start_nanos: distance(now, key.map_or(now, |key| key.at)),
            class: self.resource.classes()[class.index()].name.clone(),
            bill: if fate == Fate::Returned { Vec::new() } else { bill.collect() },
            keyed: if fate == Fate::Returned { Vec::new() } else { keyed.collect() },
            fate,
        })
    }

    fn restore_level(&mut self, then: Time, mark: &LevelMark) {
        let Some(limit) = self.resource.limit(&mark.limit) else { return };
        let rate = *self.resource.limits()[limit.index()].rate();
        let book = self.ledger.book_mut(limit);
        if mark.taken.as_ref().is_some_and(|taken| book.resume(then, taken)) {
            return;
        }
        if let Some(learned) = &mark.learned {
            book.resume_learning(then, learned);
        }
        book.reset(then, rate.credit_of_micros(mark.micros), heard(then, &rate, &mark.withheld));
    }

    fn restore_keys(&mut self, then: Time, marks: &KeyMarks) {
        let all_pages = marks.pages.iter().all(|page| page.keys.is_some());
        for id in self.resource.keyed_limits() {
            let limit = &self.resource.limits()[id.index()];
            let known = marks.known.iter().find(|known| known.limit == limit.spec().name);
            let empty_in = marks.others_empty_in.or(known.map(|_| 0));
            match (known.filter(|_| all_pages || !limit.lists_keys()), empty_in) {
                (Some(known), _) => {
                    let was = bucket(limit, then, known.micros, known.taken.as_ref());
                    self.ledger.keys.begin_like(id, was);
                }
                (None, Some(nanos)) => self.ledger.keys.begin_empty(id, then, shifted(then, nanos)),
                (None, None) => {}
            }
        }
        marks.pages.iter().for_each(|page| self.restore_page(then, page));
        for mark in &marks.listed {
            if let Some((limit, was)) = self.key_bucket_of(then, mark) {
                self.ledger.keys.put(limit, mark.key.as_str().into(), then, was);
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
            let (micros, spans) = told(limit, &was, then, spent[id.index()]);
            Some((id, mark.key.as_str().into(), bucket(limit, then, micros, spans.as_ref())))
        });
        let restored: Vec<_> = restored.collect();
        let slots = restored.into_iter().map(|(limit, key, was)| self.ledger.keys.put(limit, key, then, was)).collect();
        self.ledger.keys.rest((page.id, taken, spent), slots);
    }

    /// The limit of a key, and its bucket as it was at `then`; none where there is no such limit.
    fn key_bucket_of(&self, then: Time, mark: &KeyMark) -> Option<(LimitId, Bucket)> {
        let id = self.resource.limit(&mark.limit)?;
        let limit = &self.resource.limits()[id.index()];
        limit.is_keyed().then(|| (id, bucket(limit, then, mark.micros, mark.taken.as_ref())))
    }

    fn restore_permit(&mut self, then: Time, mark: &PermitMark) {
        if self.permits.find(&mark.id).is_some() {
            return;
        }
        let class = self.resource.class(&mark.class).unwrap_or(self.resource.default_class());
        let key = Key { at: shifted(then, mark.start_nanos), serial: self.next_serial() };
        let bill = self.known_part(mark);
        let stage = if mark.fate == Fate::Settled { Stage::Settled } else { Stage::Told };
        let granted = Granted::new(key, None, class, stage);
        let state = if mark.fate == Fate::Returned { State::Returned } else { State::Granted(granted) };
        let leases = self.leases_of(then, mark, key, &bill);
        if mark.fate == Fate::Open || mark.fate == Fate::Settled && key.at > then {
            self.ledger.promise_again(then, key, &bill, self.tier(class), &leases);
        }
        let slot = self.permits.insert(mark.id.clone(), bill, state);
        self.permits.started(slot, leases.iter().map(|(_, end)| *end).fold(key.at, Time::max));
    }

    /// When the leases of a permit end.
    fn leases_of(&self, then: Time, mark: &PermitMark, key: Key, bill: &Bill) -> Vec<(LimitId, Time)> {
        let lease = |(limit, period): (LimitId, Span)| {
            let name = &self.resource.limits()[limit.index()].spec().name;
            let told = mark.held_until.iter().find(|(held, _)| held == name);
            (limit, told.map_or(key.at + period, |(_, nanos)| shifted(then, *nanos)))
        };
        self.resource.leases(bill).map(lease).collect()
    }

    /// What was charged to limits that are there still, and have buckets of the same kind.
    fn known_part(&self, mark: &PermitMark) -> Bill {
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
fn bucket(limit: &Limit, then: Time, micros: i128, taken: Option<&Taken>) -> Bucket {
    let counted = taken.and_then(|taken| Bucket::counted(limit, then, taken));
    counted.unwrap_or_else(|| Bucket::new(limit, then, limit.rate().credit_of_micros(micros)))
}

/// Steps that are not in order, as no scheduler writes them, are withheld at their largest until the last of them ends.
fn heard(then: Time, rate: &Rate, marks: &[WithheldMark]) -> Withheld {
    let step =
        |mark: &WithheldMark| (then + Span::from_nanos(mark.nanos), rate.credit_of_micros(i128::from(mark.micros)));
    let steps: Vec<(Time, Credit)> = marks.iter().map(step).collect();
    if steps.is_sorted_by(|(a, more), (b, less)| a < b && more >= less) {
        return Withheld::new(steps);
    }
    let last = steps.iter().map(|(until, _)| *until).max();
    let most = steps.iter().map(|(_, credit)| *credit).max();
    Withheld::new(last.zip(most).into_iter().collect())
}

pub(crate) fn shifted(time: Time, nanos: i64) -> Time {
    let distance = Span::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { time - distance } else { time + distance }
}
