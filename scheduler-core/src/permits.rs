//! The permits that are remembered, by id.

use crate::bill::Bill;
use crate::bills::Bills;
use crate::index::Index;
use crate::line::Waiting;
use crate::resource::{ClassId, LimitId};
use crate::rules::Succession;
use crate::slab::{Slab, Slot};
use crate::timeline::Key;
use hashbrown::HashMap;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long an id is known after its start, or after the end of its lease: long enough for calls that take minutes to settle.
pub(crate) const RETENTION: Span = Span::from_secs(300);
/// How long it is known at least, when the bound of remembered permits presses.
pub(crate) const MIN_RETENTION: Span = Span::from_secs(60);

/// A request that was granted or waits. There may be a million, so that it is kept small.
#[derive(Clone, Debug)]
pub(crate) struct Permit<R> {
    pub(crate) id: PermitId,
    pub(crate) bill: Arc<Bill>,
    pub(crate) state: State<R>,
    /// Another that ends in the same second.
    next: Option<Slot>,
}

impl<R> Permit<R> {
    /// What is known of one that waits.
    pub(crate) fn waiting(&self) -> &Waiting<R> {
        match &self.state {
            State::Waiting(waiting) => waiting,
            State::Granted(_) | State::Returned => unreachable!("who is in line waits"),
        }
    }

    pub(crate) fn waiting_mut(&mut self) -> &mut Waiting<R> {
        match &mut self.state {
            State::Waiting(waiting) => waiting,
            State::Granted(_) | State::Returned => unreachable!("who is in line waits"),
        }
    }
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
    /// Whether it was charged at another start, which has lapsed.
    pub(crate) moved: bool,
}

impl Granted {
    /// Whether its charge is a promise that can be withdrawn.
    pub(crate) fn is_promised(&self, now: Time) -> bool {
        self.key.at > now && !self.moved
    }
}

/// Permits by id, and by the second in which they end: they are forgotten by the second.
#[derive(Debug)]
pub(crate) struct Permits<R> {
    permits: Slab<Permit<R>>,
    bills: Bills,
    by_id: Index,
    /// The last of each second's; it leads to the others.
    by_end: BTreeMap<u64, Slot>,
    /// Those that were renewed, and when they end now.
    renewed: BTreeMap<Slot, Time>,
    bound: usize,
}

impl<R> Permits<R> {
    pub(crate) fn new(bound: usize) -> Self {
        let (permits, bills, by_id) = (Slab::default(), Bills::default(), Index::default());
        Permits { permits, bills, by_id, by_end: BTreeMap::new(), renewed: BTreeMap::new(), bound }
    }

    pub(crate) fn find(&self, id: &PermitId) -> Option<Slot> {
        self.by_id.find(id, |slot| self.get(slot).id == *id)
    }

    pub(crate) fn get(&self, slot: Slot) -> &Permit<R> {
        self.permits.get(slot).expect("a slot in use")
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Permit<R> {
        self.permits.get_mut(slot).expect("a slot in use")
    }

    /// What is known of the one in `slot`, if one that waits is there.
    pub(crate) fn find_waiting(&mut self, slot: Slot) -> Option<&mut Waiting<R>> {
        match &mut self.permits.get_mut(slot)?.state {
            State::Waiting(waiting) => Some(waiting),
            State::Granted(_) | State::Returned => None,
        }
    }

    /// Remembers a permit whose id is new. It stays until [`Permits::remove`], or until
    /// [`Permits::started`] has named its start and that is long ago.
    pub(crate) fn insert(&mut self, id: PermitId, bill: Bill, state: State<R>) -> Slot {
        let (mark, bill) = (self.by_id.mark(&id), self.bills.keep(bill));
        let slot = self.permits.insert(Permit { id, bill, state, next: None });
        self.by_id.insert(mark, slot);
        slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Permit<R> {
        let permit = self.permits.remove(slot).expect("a slot in use");
        self.by_id.remove(&permit.id, slot);
        self.renewed.remove(&slot);
        self.bills.release(&permit.bill);
        permit
    }

    /// A permit has a start, and may be forgotten some time after `end`: that start, or the end of its lease.
    pub(crate) fn started(&mut self, slot: Slot, end: Time) {
        self.get_mut(slot).next = self.by_end.insert(second_after(end), slot);
    }

    /// The lease of a permit that has started ends only at `end`.
    pub(crate) fn renewed(&mut self, slot: Slot, end: Time) {
        self.renewed.insert(slot, end);
    }

    /// Whether there is room for one more at `now`; makes room where that forgets nobody too early.
    pub(crate) fn has_room(&mut self, now: Time) -> bool {
        if self.len() >= self.bound {
            self.forget(now, MIN_RETENTION);
        }
        self.len() < self.bound
    }

    /// Forgets permits that ended before `now` less the retention.
    pub(crate) fn expire(&mut self, now: Time) {
        self.forget(now, RETENTION);
    }

    /// When [`Permits::expire`] will have something to do.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        let (second, _) = self.by_end.first_key_value()?;
        Some(end_of(*second) + RETENTION)
    }

    /// Charges permits to the limits of another set, as far as these were theirs before. Nobody waits.
    pub(crate) fn change(&mut self, succession: &Succession) {
        // Bills are told apart by where they are, so that all of the former ones have to stay until the end.
        let former = std::mem::take(&mut self.bills);
        let mut known: HashMap<*const Bill, Arc<Bill>> = HashMap::new();
        for permit in self.permits.iter_mut() {
            let changed = known
                .entry(Arc::as_ptr(&permit.bill))
                .or_insert_with(|| self.bills.keep(succession.bill(&permit.bill)));
            permit.bill = Arc::clone(changed);
            if let State::Granted(granted) = &mut permit.state {
                granted.limited_by = granted.limited_by.and_then(|limit| succession.of(limit));
            }
        }
        drop(former);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Permit<R>> {
        self.permits.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.permits.len()
    }

    fn forget(&mut self, now: Time, retention: Span) {
        while let Some(entry) = self.by_end.first_entry() {
            if end_of(*entry.key()) + retention > now {
                return;
            }
            let mut next = Some(entry.remove());
            while let Some(slot) = next {
                next = self.get(slot).next;
                match self.renewed.remove(&slot).filter(|end| *end + retention > now) {
                    Some(end) => self.started(slot, end),
                    None => drop(self.remove(slot)),
                }
            }
        }
    }
}

fn end_of(second: u64) -> Time {
    Time::ORIGIN + Span::from_secs(second)
}

/// The number of the first whole second at or after `at`.
fn second_after(at: Time) -> u64 {
    at.nanos().div_ceil(Span::from_secs(1).nanos())
}
