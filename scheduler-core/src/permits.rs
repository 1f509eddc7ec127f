//! The permits that are remembered, by id.

use crate::bill::Bill;
use crate::bills::Bills;
use crate::index::Index;
use crate::line::Waiting;
use crate::resource::{ClassId, LimitId};
use crate::rules::Succession;
use crate::slab::{Slab, Slot};
use crate::spec::MAX_IDLE_PERMITS;
use crate::timeline::Key;
use hashbrown::HashMap;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
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
    /// Others that end in the same second: the one before it in their list, and the one behind.
    before: Option<Slot>,
    next: Option<Slot>,
}

impl<R> Permit<R> {
    /// Whether it takes nothing of any limit.
    fn is_idle(&self) -> bool {
        match &self.state {
            State::Returned => true,
            State::Granted(_) => self.bill.is_empty(),
            State::Waiting(_) => false,
        }
    }

    /// What is known of one that waits.
    pub(crate) fn waiting(&self) -> &Waiting<R> {
        match &self.state {
            State::Waiting(waiting) => waiting,
            State::Granted(_) | State::Returned => unreachable!("who is in line waits"),
        }
    }

    /// Whether it was committed to a start, and is not given back.
    pub(crate) fn is_granted(&self) -> bool {
        matches!(self.state, State::Granted(_))
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
    /// Whether its asker was told, or is with this very event.
    pub(crate) told: bool,
}

impl Granted {
    /// Whether its charge is a promise that can be withdrawn.
    pub(crate) fn is_promised(&self, now: Time) -> bool {
        self.key.at > now
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
    /// Those that take nothing, in the order in which they began to, and since when. They are not in `by_end`.
    idle: VecDeque<(Time, Slot)>,
    /// Those that were renewed, and when they end now.
    renewed: BTreeMap<Slot, Time>,
    bound: usize,
}

impl<R> Permits<R> {
    pub(crate) fn new(bound: usize) -> Self {
        let (permits, bills, by_id) = (Slab::default(), Bills::default(), Index::default());
        let (by_end, idle, renewed) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        Permits { permits, bills, by_id, by_end, idle, renewed, bound }
    }

    pub(crate) fn find(&self, id: &PermitId) -> Option<Slot> {
        self.by_id.find(id, |slot| self.get(slot).id == *id)
    }

    pub(crate) fn get(&self, slot: Slot) -> &Permit<R> {
        self.permits.get(slot).expect("a slot in use")
    }

    /// The one in `slot`, if there is one.
    pub(crate) fn find_at(&self, slot: Slot) -> Option<&Permit<R>> {
        self.permits.get(slot)
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Permit<R> {
        self.permits.get_mut(slot).expect("a slot in use")
    }

    /// What is known of the one in `slot`, if one that waits is there.
    pub(crate) fn find_waiting(&self, slot: Slot) -> Option<&Waiting<R>> {
        match &self.find_at(slot)?.state {
            State::Waiting(waiting) => Some(waiting),
            State::Granted(_) | State::Returned => None,
        }
    }

    /// The place with this number, from zero; none behind the last.
    pub(crate) fn nth_place(&self, number: usize) -> Option<Slot> {
        self.permits.nth_place(number)
    }

    /// Remembers a permit whose id is new. It stays until [`Permits::remove`], or until
    /// [`Permits::started`] has named its start and that is long ago.
    pub(crate) fn insert(&mut self, id: PermitId, bill: Bill, state: State<R>) -> Slot {
        let bill = self.bills.keep(bill);
        let slot = self.permits.insert(Permit { id, bill, state, before: None, next: None });
        self.by_id.insert(&self.permits.get(slot).expect("it was put there").id, slot);
        slot
    }

    /// Calls the permit in `slot` by an id that is new; its former id is free.
    pub(crate) fn rename(&mut self, slot: Slot, id: PermitId) {
        self.by_id.insert(&id, slot);
        let former = std::mem::replace(&mut self.get_mut(slot).id, id);
        self.by_id.remove(&former, slot);
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
        if self.get(slot).is_idle() {
            return self.set_aside(slot, end);
        }
        let next = self.by_end.insert(second_after(end), slot);
        let permit = self.get_mut(slot);
        (permit.before, permit.next) = (None, next);
        next.into_iter().for_each(|next| self.get_mut(next).before = Some(slot));
    }

    /// Gives a permit back that was to `end` at this time: it is remembered for a while from now on.
    pub(crate) fn give_back(&mut self, now: Time, slot: Slot, end: Time) {
        let was_idle = self.get(slot).is_idle();
        self.get_mut(slot).state = State::Returned;
        if !was_idle {
            self.unlist(slot, end);
            self.set_aside(slot, now);
        }
    }

    /// Forgets a permit that was to `end` at this time.
    pub(crate) fn take_back(&mut self, slot: Slot, end: Time) {
        self.unlist(slot, end);
        self.remove(slot);
    }

    /// The lease of a permit that has started ends only at `end`.
    pub(crate) fn renewed(&mut self, slot: Slot, end: Time) {
        self.renewed.insert(slot, end);
    }

    /// Whether there is room for one more at `now`; makes room where that forgets nobody too early.
    pub(crate) fn has_room(&mut self, now: Time) -> bool {
        if self.busy() >= self.bound {
            self.forget(now, MIN_RETENTION);
        }
        self.busy() < self.bound
    }

    /// Forgets permits that ended before `now` less the retention.
    pub(crate) fn expire(&mut self, now: Time) {
        self.forget(now, RETENTION);
        while let Some((_, slot)) = self.idle.pop_front_if(|(since, _)| *since + RETENTION <= now) {
            self.remove(slot);
        }
    }

    /// When [`Permits::expire`] will have something to do.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        let started = self.by_end.first_key_value().map(|(second, _)| end_of(*second));
        let idle = self.idle.front().map(|(since, _)| *since);
        Some(started.into_iter().chain(idle).min()? + RETENTION)
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

    /// How many take something, or wait for it.
    fn busy(&self) -> usize {
        self.len() - self.idle.len()
    }

    fn set_aside(&mut self, slot: Slot, since: Time) {
        self.idle.push_back((since, slot));
        if self.idle.len() > MAX_IDLE_PERMITS {
            let (_, oldest) = self.idle.pop_front().expect("there is an oldest one");
            self.remove(oldest);
        }
    }

    /// Takes a permit out of the list of its second.
    fn unlist(&mut self, slot: Slot, started: Time) {
        let (before, next) = (self.get(slot).before, self.get(slot).next);
        next.into_iter().for_each(|next| self.get_mut(next).before = before);
        if let Some(before) = before {
            self.get_mut(before).next = next;
            return;
        }
        let second = self.led_by(slot, second_after(started));
        match next {
            Some(next) => self.by_end.insert(second, next),
            None => self.by_end.remove(&second),
        };
    }

    /// The second whose list begins with this one: the expected one, unless it was renewed or the limits have changed since.
    fn led_by(&self, slot: Slot, expected: u64) -> u64 {
        if self.by_end.get(&expected) == Some(&slot) {
            return expected;
        }
        let found = self.by_end.iter().find(|(_, first)| **first == slot);
        *found.expect("the first of a list leads it").0
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
