//! The permits that are remembered, by id.

use crate::bill::Bill;
use crate::line::Waiting;
use crate::resource::{ClassId, LimitId};
use crate::timeline::Key;
use hashbrown::{DefaultHashBuilder, HashTable};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// How long an id is known after its start: long enough for calls that take minutes to settle.
pub(crate) const RETENTION: Span = Span::from_secs(300);
/// How long it is known at least, when the bound of remembered permits presses.
pub(crate) const MIN_RETENTION: Span = Span::from_secs(60);
/// Permits are forgotten by the second.
const SLOT: Span = Span::from_secs(1);

/// Where a permit is kept.
pub(crate) type Slot = u32;

/// A request that was granted or waits.
#[derive(Clone, Debug)]
pub(crate) struct Permit<R> {
    pub(crate) id: PermitId,
    pub(crate) bill: Bill,
    pub(crate) state: State<R>,
}

#[derive(Clone, Debug)]
pub(crate) enum State<R> {
    /// In line, charged nothing.
    Waiting(Box<Waiting<R>>),
    /// Committed to a start, and charged.
    Granted(Granted),
    /// Given back, or cancelled while it waited. Remembered so that a late duplicate of its
    /// request is not charged for nobody.
    Returned,
}

/// A committed start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) key: Key,
    pub(crate) limited_by: Option<LimitId>,
    pub(crate) class: ClassId,
    pub(crate) settled: bool,
}

/// Permits by id, and by the second in which they started.
#[derive(Debug)]
pub(crate) struct Permits<R> {
    slots: Vec<Option<Permit<R>>>,
    free: Vec<Slot>,
    by_id: HashTable<Slot>,
    hasher: DefaultHashBuilder,
    by_start: BTreeMap<u64, Vec<Slot>>,
    bound: usize,
}

impl<R> Permits<R> {
    pub(crate) fn new(bound: usize) -> Self {
        Permits {
            slots: Vec::new(),
            free: Vec::new(),
            by_id: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            by_start: BTreeMap::new(),
            bound,
        }
    }

    pub(crate) fn find(&self, id: &PermitId) -> Option<Slot> {
        let hash = self.hasher.hash_one(id);
        self.by_id.find(hash, |slot| self.get(*slot).id == *id).copied()
    }

    pub(crate) fn get(&self, slot: Slot) -> &Permit<R> {
        self.slots[slot as usize].as_ref().expect("a slot in use")
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Permit<R> {
        self.slots[slot as usize].as_mut().expect("a slot in use")
    }

    /// Remembers a permit whose id is new. It stays until [`Permits::remove`], or until
    /// [`Permits::started`] has named its start and that is long ago.
    pub(crate) fn insert(&mut self, permit: Permit<R>) -> Slot {
        let hash = self.hasher.hash_one(&permit.id);
        let slot = self.put(permit);
        let Permits { slots, hasher, by_id, .. } = self;
        by_id.insert_unique(hash, slot, |other| {
            hasher.hash_one(&slots[*other as usize].as_ref().expect("a slot in use").id)
        });
        slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Permit<R> {
        let permit = self.slots[slot as usize].take().expect("a slot in use");
        let hash = self.hasher.hash_one(&permit.id);
        if let Ok(entry) = self.by_id.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
        self.free.push(slot);
        permit
    }

    /// Starts the clock of retention for a permit.
    pub(crate) fn started(&mut self, slot: Slot, at: Time) {
        self.by_start.entry(second_after(at)).or_default().push(slot);
    }

    /// Whether there is room for one more at `now`; makes room where that forgets nobody too early.
    pub(crate) fn has_room(&mut self, now: Time) -> bool {
        if self.by_id.len() >= self.bound {
            self.forget(now - MIN_RETENTION);
        }
        self.by_id.len() < self.bound
    }

    /// Forgets permits that started before `now` less the retention.
    pub(crate) fn expire(&mut self, now: Time) {
        self.forget(now - RETENTION);
    }

    /// When [`Permits::expire`] will have something to do.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        let (second, _) = self.by_start.first_key_value()?;
        Some(Time::from_nanos(second * SLOT.nanos()) + RETENTION)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Permit<R>> {
        self.slots.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    fn forget(&mut self, started_before: Time) {
        while let Some(entry) = self.by_start.first_entry() {
            if *entry.key() * SLOT.nanos() > started_before.nanos() {
                return;
            }
            for slot in entry.remove() {
                self.remove(slot);
            }
        }
    }

    fn put(&mut self, permit: Permit<R>) -> Slot {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(permit);
                slot
            }
            None => {
                self.slots.push(Some(permit));
                (self.slots.len() - 1) as Slot
            }
        }
    }
}

/// The number of the first whole second at or after `at`.
fn second_after(at: Time) -> u64 {
    at.nanos().div_ceil(SLOT.nanos())
}
