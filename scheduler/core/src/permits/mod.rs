//! Requests and grants by id, each from its request to its end, and the bills that they share.

use crate::adaptation::ObservedCall;
use crate::collections::{Index, Slab, Slot};
use crate::identity::Identity;
use crate::limits::{StartKey, just_past};
use crate::queue::Waiting;
use hashbrown::{HashMap, HashSet};
use rampmeter_policy::ids::{ClassId, LimitId};
use rampmeter_policy::observation::Observation;
use rampmeter_policy::spec::{MAX_IDLE_PERMITS, MIN_RETENTION, RETENTION};
use rampmeter_policy::{Bill, Succession};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Permits that one event forgets, which takes a few hundred microseconds.
const MAX_FORGOTTEN: usize = 512;

/// The remembered permits, by id and by the time of their end.
/// Invariant: a permit that has a start is in `by_end`, and a returned one in `idle`.
#[derive(Debug)]
pub(crate) struct Permits<R> {
    permits: Slab<Permit<R>>,
    bills: Bills,
    by_id: Index,
    by_end: BTreeMap<u32, Vec<Slot>>,
    /// Returned permits, the first to be forgotten first, with the start of their retention.
    idle: VecDeque<(Time, Slot)>,
    last_expiry: Time,
    pub(crate) last_serial: u64,
    bound: usize,
}

impl<R> Permits<R> {
    pub(crate) fn new(bound: usize) -> Self {
        let (permits, bills, by_id) = (Slab::default(), Bills::default(), Index::default());
        let (by_end, idle, last_expiry) = (BTreeMap::new(), VecDeque::new(), Time::ORIGIN);
        Permits { permits, bills, by_id, by_end, idle, last_expiry, last_serial: 0, bound }
    }

    /// Returns the number of the next start or arrival. At equal times, lower numbers go first.
    pub(crate) fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    pub(crate) fn find(&self, id: &PermitId) -> Option<Slot> {
        self.by_id.find(id, |slot| self.get(slot).id == *id)
    }

    pub(crate) fn get(&self, slot: Slot) -> &Permit<R> {
        self.permits.get(slot).expect("a slot in use")
    }

    pub(crate) fn find_at(&self, slot: Slot) -> Option<&Permit<R>> {
        self.permits.get(slot)
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Permit<R> {
        self.permits.get_mut(slot).expect("a slot in use")
    }

    /// Returns the slot with this number, from zero; `None` after the last.
    pub(crate) fn nth_slot(&self, number: usize) -> Option<Slot> {
        self.permits.nth_slot(number)
    }

    /// Remembers a permit whose id is new, until [`Permits::remove`] or until the retention has
    /// passed since the end that [`Permits::forget_after`] sets.
    pub(crate) fn insert(&mut self, id: PermitId, identity: Identity, bill: Bill, state: State<R>) -> Slot {
        let bill = self.bills.keep(bill);
        let slot = self.permits.insert(Permit { id, bill, identity, state });
        self.by_id.insert(&self.permits.get(slot).expect("it was put there").id, slot);
        slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Permit<R> {
        let permit = self.permits.remove(slot).expect("a slot in use");
        self.by_id.remove(&permit.id, slot);
        self.bills.release(&permit.bill);
        assert!(self.bills.kept.len() <= self.permits.len(), "each bill that is kept is a permit's");
        permit
    }

    /// Gives a waiting request another bill, for the same client. No queue may have the former one.
    pub(crate) fn set_bill(&mut self, slot: Slot, bill: Bill) {
        let client = self.get(slot).bill.client;
        let bill = self.bills.keep(bill.of_client(client));
        let former = std::mem::replace(&mut self.get_mut(slot).bill, bill);
        self.bills.release(&former);
    }

    /// Lists a permit with a start, to be forgotten once the retention has passed since `end`: its
    /// start or the end of its last lease, whichever is later.
    pub(crate) fn forget_after(&mut self, slot: Slot, end: Time) {
        match &mut self.get_mut(slot).state {
            State::Granted(granted) => {
                granted.end = second_after(end);
                let second = granted.end;
                self.by_end.entry(second).or_default().push(slot);
            }
            State::Returned => self.push_idle(slot, end),
            State::Waiting(_) => unreachable!("what waits has no end yet"),
        }
    }

    /// Marks a permit as given back. It is remembered for a while from now on.
    pub(crate) fn give_back(&mut self, now: Time, slot: Slot) {
        self.unlist(slot);
        self.get_mut(slot).state = State::Returned;
        self.push_idle(slot, now);
    }

    pub(crate) fn forget_now(&mut self, slot: Slot) {
        self.unlist(slot);
        self.remove(slot);
    }

    pub(crate) fn move_end(&mut self, slot: Slot, end: Time) {
        self.unlist(slot);
        self.forget_after(slot, end);
    }

    /// Whether there is room for one more permit. Makes room if that forgets no permit too early.
    pub(crate) fn has_room(&mut self, now: Time) -> bool {
        if self.busy() >= self.bound {
            self.forget(now, MIN_RETENTION);
        }
        self.busy() < self.bound
    }

    pub(crate) fn expire(&mut self, now: Time) {
        self.last_expiry = now;
        self.forget(now, RETENTION);
        for _ in 0..MAX_FORGOTTEN {
            let Some((_, slot)) = self.idle.pop_front_if(|(since, _)| *since + RETENTION <= now) else { return };
            self.remove(slot);
        }
    }

    pub(crate) fn next_expiry(&self) -> Option<Time> {
        let started = self.by_end.first_key_value().map(|(second, _)| end_of(*second));
        let first = started.into_iter().chain(self.idle.front().map(|(since, _)| *since)).min()?;
        Some((first + RETENTION).max(just_past(self.last_expiry)))
    }

    /// Charges all granted permits to the limits that follow theirs, as far as these continue.
    pub(crate) fn change(&mut self, succession: &Succession) {
        // Bills are looked up by address, so all former ones have to stay until the end. The map is
        // never iterated: addresses order nothing.
        let former = std::mem::take(&mut self.bills);
        let mut known: HashMap<(*const Bill, bool), Arc<Bill>> = HashMap::new();
        for permit in self.permits.iter_mut() {
            let waits = permit.as_waiting().is_some();
            let changed = || if waits { (*permit.bill).clone() } else { succession.bill(&permit.bill) };
            let changed = known.entry((Arc::as_ptr(&permit.bill), waits)).or_insert_with(|| self.bills.keep(changed()));
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

    /// Returns permits that were granted, those that end last first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &Permit<R>> {
        self.by_end.values().rev().flat_map(|listed| listed.iter().rev()).map(|slot| self.get(*slot))
    }

    pub(crate) fn len(&self) -> usize {
        self.permits.len()
    }

    fn busy(&self) -> usize {
        self.len() - self.idle.len()
    }

    fn push_idle(&mut self, slot: Slot, since: Time) {
        self.idle.push_back((since, slot));
        if self.idle.len() > MAX_IDLE_PERMITS
            && let Some((_, oldest)) = self.idle.pop_front()
        {
            self.remove(oldest);
        }
    }

    fn unlist(&mut self, slot: Slot) {
        let Granted { end, .. } = self.get(slot).granted().expect("only what has a start is listed");
        let listed = self.by_end.get_mut(&end).expect("what has a start is listed");
        // Searched from the back, as most permits are renewed or given back soon.
        let position = listed.iter().rposition(|listed| *listed == slot).expect("what has a start is listed");
        listed.swap_remove(position);
        if listed.is_empty() {
            self.by_end.remove(&end);
        }
    }

    fn forget(&mut self, now: Time, retention: Span) {
        for _ in 0..MAX_FORGOTTEN {
            let Some(mut first) = self.by_end.first_entry() else { return };
            if end_of(*first.key()) + retention > now {
                return;
            }
            let slot = first.get_mut().pop();
            if first.get().is_empty() {
                first.remove();
            }
            slot.into_iter().for_each(|slot| drop(self.remove(slot)));
        }
    }
}

fn end_of(second: u32) -> Time {
    Time::ORIGIN + Span::from_secs(second.into())
}

/// Returns the first whole second at or after `at`; saturates after 136 years.
fn second_after(at: Time) -> u32 {
    u32::try_from(at.nanos().div_ceil(Span::from_secs(1).nanos())).unwrap_or(u32::MAX)
}

/// A request that waits, or was granted or given back. There may be a million, so it is small.
#[derive(Clone, Debug)]
pub(crate) struct Permit<R> {
    pub(crate) id: PermitId,
    pub(crate) bill: Arc<Bill>,
    pub(crate) identity: Identity,
    pub(crate) state: State<R>,
}

impl<R> Permit<R> {
    pub(crate) fn granted(&self) -> Option<Granted> {
        match self.state {
            State::Granted(granted) => Some(granted),
            State::Waiting(_) | State::Returned => None,
        }
    }

    pub(crate) fn answered<'a>(&'a self, now: Time, observation: &'a Observation) -> Option<ObservedCall<'a>> {
        let Granted { start, .. } = self.granted().filter(Granted::is_open)?;
        Some(ObservedCall { now, start, user: self.identity.user(), bill: &self.bill, observation })
    }

    pub(crate) fn as_waiting(&self) -> Option<&Waiting<R>> {
        match &self.state {
            State::Waiting(waiting) => Some(waiting),
            State::Granted(_) | State::Returned => None,
        }
    }

    pub(crate) fn waiting(&self) -> &Waiting<R> {
        self.as_waiting().expect("a request in a queue waits")
    }

    pub(crate) fn waiting_mut(&mut self) -> &mut Waiting<R> {
        let State::Waiting(waiting) = &mut self.state else { unreachable!("a request in a queue waits") };
        waiting
    }

    pub(crate) fn stop_waiting(&mut self) -> Waiting<R> {
        let State::Waiting(waiting) = std::mem::replace(&mut self.state, State::Returned) else {
            unreachable!("a request in a queue waits")
        };
        *waiting
    }
}

#[derive(Clone, Debug)]
pub(crate) enum State<R> {
    /// In a queue, and charged nothing.
    Waiting(Box<Waiting<R>>),
    Granted(Granted),
    /// Given back or cancelled. A late duplicate of a remembered request is not charged.
    Returned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) start: StartKey,
    pub(crate) limited_by: Option<LimitId>,
    pub(crate) class: ClassId,
    pub(crate) stage: Stage,
    /// The first whole second after its start and its leases, once it is listed.
    pub(crate) end: u32,
}

/// Whether the client may know of a start, and the state of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The client was not sent the start.
    Promised,
    /// The start was sent, or is sent with this event.
    Sent,
    /// A predecessor granted the call, and its renewal made it count again.
    Inherited,
    Settled,
}

impl Granted {
    pub(crate) fn new(start: StartKey, limited_by: Option<LimitId>, class: ClassId, stage: Stage) -> Self {
        Granted { start, limited_by, class, stage, end: 0 }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.stage != Stage::Settled
    }

    pub(crate) fn starts_later(&self, now: Time) -> bool {
        self.start.at > now
    }
}

const MIN_ROOM: usize = 1024;
/// A set with less than one part in this many in use is shrunk.
const SPARSE: usize = 8;

/// Bills in use. Calls have few different costs, so shared bills save a third of a permit's memory.
#[derive(Debug, Default)]
pub(crate) struct Bills {
    kept: HashSet<Arc<Bill>>,
    /// The bill that was looked up last, which is often looked up next.
    last: Option<Arc<Bill>>,
}

impl Bills {
    pub(crate) fn keep(&mut self, bill: Bill) -> Arc<Bill> {
        if let Some(last) = self.last.as_ref().filter(|last| ***last == bill) {
            return Arc::clone(last);
        }
        let kept = self.kept.get(&bill).cloned().unwrap_or_else(|| {
            let bill = Arc::new(bill);
            self.kept.insert(Arc::clone(&bill));
            bill
        });
        self.last = Some(Arc::clone(&kept));
        kept
    }

    /// Forgets `bill` once no permit uses it.
    pub(crate) fn release(&mut self, bill: &Arc<Bill>) {
        let is_last = self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, bill));
        let own_references = 2 + usize::from(is_last);
        assert!(Arc::strong_count(bill) >= own_references, "a bill that a permit uses is kept");
        if Arc::strong_count(bill) == own_references {
            self.last.take_if(|_| is_last);
            assert!(self.kept.remove(bill), "a bill in use is kept");
            // A flood of keys, each with bills of its own, leaves the set sparse.
            if self.kept.capacity() > MIN_ROOM && self.kept.len() < self.kept.capacity() / SPARSE {
                self.kept.shrink_to(2 * self.kept.len());
            }
        }
    }
}
