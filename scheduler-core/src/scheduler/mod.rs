//! The scheduler of one resource: takes events, and gives commands.

mod ask;
mod backfill;
mod change;
mod delivery;
mod dispatch;
mod feedback;
mod idle_permits;
mod key_labels;
mod key_waits;
mod pending_answers;
pub(crate) mod permits;
mod settle;
mod store;
pub mod undelivered;
mod updates;

use crate::adaptation::CostEstimates;
use crate::collections::Slot;
use crate::command::{Command, Grant};
use crate::event::{Ask, Event};
use crate::fencing::GrantBudget;
use crate::ids::{ClassId, LimitId, Tier};
use crate::ledger::{Ledger, ShadowLimits};
use crate::policy::Resource;
use crate::queue::{Edition, Queues};
use crate::refusal::Refusal;
use delivery::Delivery;
use dispatch::HeldStart;
use key_labels::KeyLabels;
use pending_answers::PendingAnswers;
use permits::{Granted, Permits, Stage, State};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::Counters;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Owns the buckets of one resource and decides when each call may start.
///
/// Call [`handle`](Scheduler::handle) with each event, then take all commands with
/// [`poll_command`](Scheduler::poll_command). If no event comes before
/// [`next_wakeup`](Scheduler::next_wakeup), handle [`Event::Wake`] then. Time must not go back.
///
/// Guarantees, as long as calls start when their permits say:
///
/// * Each start finds in every bucket what its call costs, beside the margin.
/// * A refused request changes nothing, and a repeated id is charged once.
///
/// Not promised: a call that cost more than estimated debits its bucket, which may then lack
/// what was promised before.
///
/// ```
/// use rampmeter_protocol::{amount::Amount, id::PermitId, labels::Labels, name::Name, request::Mode, time::{Span, Time}};
/// use rampmeter_scheduler_core::command::Command;
/// use rampmeter_scheduler_core::event::{Ask, Event};
/// use rampmeter_scheduler_core::identity::Identity;
/// use rampmeter_scheduler_core::ids::Asker;
/// use rampmeter_scheduler_core::policy::resource::Resource;
/// use rampmeter_scheduler_core::scheduler::Scheduler;
/// use rampmeter_scheduler_core::policy::spec::{LimitSpec, Margin, ResourceSpec};
///
/// let name = |name| Name::new(name).unwrap();
/// let two_per_second = LimitSpec {
///     margin: Margin::Fixed(Amount::ZERO),
///     ..LimitSpec::new(name("per-second"), name("requests"), Amount::new(2.0)?, Span::from_secs(1))
/// };
/// let resource = Resource::new(&ResourceSpec::new(name("api"), vec![two_per_second]))?;
/// let bill = resource.bill(&Labels::new(), [].into_iter())?;
/// let class = resource.default_class();
/// let mut scheduler = Scheduler::new(resource, 1, Time::ORIGIN);
/// let mut delays = Vec::new();
/// for worker in ["a", "b", "c"] {
///     let ask = Ask {
///         to: worker, id: PermitId::new(worker)?, asker: Asker::UNKNOWN, identity: Identity::default(), bill: bill.clone(), class, mode: Mode::Reserve,
///         max_wait: None, age: Span::ZERO, progress: false, client: None, call: None,
///     };
///     scheduler.handle(Time::ORIGIN, Event::Ask(ask));
///     while let Some(Command::Grant(grant)) = scheduler.poll_command() {
///         delays.push(grant.delay);
///     }
/// }
/// assert_eq!(delays, [Span::ZERO, Span::ZERO, Span::from_millis(500)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Scheduler<R> {
    pub(crate) resource: Resource,
    pub(crate) epoch: u64,
    pub(crate) ledger: Ledger,
    pub(crate) permits: Permits<R>,
    pub(crate) queues: Queues,
    pub(crate) counters: Counters,
    pub(crate) cost_estimates: CostEstimates,
    /// What the store allows to be granted; a scheduler without a store has none.
    pub(crate) grant_budget: Option<GrantBudget>,
    /// Units of former limits: calls that were granted under them may still state such costs.
    former_units: BTreeSet<Name>,
    /// Limits whose capacity in force has changed by the upstream's word.
    capacity_changes: BTreeSet<LimitId>,
    /// When people are told of them next.
    next_capacity_news: Time,
    /// Former limits of requests that are not charged by the present ones yet, by edition.
    former_limits: BTreeMap<Edition, Resource>,
    pub(crate) key_labels: KeyLabels,
    /// Limits that are measured and not enforced.
    pub(crate) shadow_limits: ShadowLimits,
    /// When this scheduler took the resource over: with its first checkpoint, if it has a store.
    pub(crate) since: Time,
    /// The time of the latest event.
    now: Time,
    pub(crate) serial: u64,
    next_dispatch: Option<Time>,
    /// Starts that are kept free while waiting requests are dispatched; none between events.
    holds: Vec<HeldStart>,
    /// Steps that this event has left.
    steps_left: usize,
    handing_over: bool,
    delivery: Delivery,
    pending_answers: PendingAnswers<R>,
    commands: VecDeque<Command<R>>,
}

/// When the driver has to come back, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wakeup {
    /// The time.
    pub at: Time,
    /// The reason.
    pub reason: Reason,
}

/// Why the driver has to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A waiting request may start, is to be promoted, or misses its deadline; or some are not yet
    /// charged by changed limits.
    Dispatch,
    /// Waiting requests are told how they stand.
    Progress,
    /// Old permits are forgotten.
    Expiry,
    /// Answers that have waited for the store for too long become refusals.
    PendingAnswers,
    /// What was learned of the upstream is looked at again.
    Review,
}

impl<R: Clone> Scheduler<R> {
    /// A scheduler that takes `resource` over at `now`, without any record of it.
    #[must_use]
    pub fn new(resource: Resource, epoch: u64, now: Time) -> Self {
        Scheduler {
            epoch,
            ledger: Ledger::new(&resource, now),
            permits: Permits::new(resource.spec().bounds.max_permits),
            queues: Queues::new(&resource, now),
            counters: Counters::default(),
            cost_estimates: CostEstimates::default(),
            grant_budget: None,
            former_units: BTreeSet::new(),
            capacity_changes: BTreeSet::new(),
            next_capacity_news: Time::ORIGIN,
            former_limits: BTreeMap::new(),
            key_labels: KeyLabels::new(&resource),
            shadow_limits: ShadowLimits::new(&resource, now),
            since: now,
            now,
            serial: 0,
            next_dispatch: None,
            holds: Vec::new(),
            steps_left: 0,
            handing_over: false,
            delivery: Delivery::default(),
            pending_answers: PendingAnswers::new(),
            commands: VecDeque::new(),
            resource,
        }
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The leader's epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Takes note of what happened at `now`.
    ///
    /// # Panics
    /// If `now` is before the time of an earlier event.
    pub fn handle(&mut self, now: Time, event: Event<R>) {
        assert!(self.now <= now, "time does not go back: {now:?} is before {:?}", self.now);
        self.now = now;
        // 1. Promised starts that are past count as spent.
        if self.ledger.next_review().is_some_and(|review| review <= now) {
            self.ledger.review(now);
        }
        self.ledger.advance(now);
        self.shadow_limits.advance(now);
        // 2. The event.
        match event {
            Event::Ask(ask) => {
                let bill = self.cost_estimates.correct(&self.resource, ask.bill);
                self.ask(now, Ask { bill, ..ask });
            }
            Event::Settle(settle) => self.settle(now, settle),
            Event::Wake => {
                self.time_out_pending(now);
                self.continue_change(now);
            }
            Event::CheckpointStored(number) => self.checkpoint_stored(now, number),
            Event::StoreLost => self.store_lost(now),
            Event::Doubt => self.doubt(),
            Event::Delivered(until) => self.delivered(until),
            Event::HeldUp => self.held_up(now),
            Event::Limits(resource) => self.change_limits(now, *resource),
            Event::Levels { asked, heard, levels } => self.compare_levels(now, asked, heard, &levels),
            Event::Recheck => self.hasten_checkpoint(),
            Event::Epoch(epoch) => self.raise_epoch(epoch),
            Event::StoreIsAnother { epoch } => self.distrust_stock(now, epoch),
            Event::Thaw(limits) => self.thaw(now, &limits),
            Event::Empty(limits) => self.empty(now, &limits),
            Event::WallClock { unix_at_origin } => self.anchor(now, unix_at_origin),
            Event::Undelivered(id) => self.undelivered(now, &id),
            Event::HandOver => self.hand_over(now),
        }
        // 3. Waiting requests that can start are granted their starts.
        let changed = self.ledger.take_change() && self.waiting() > 0;
        self.queues.updates.note(changed);
        if changed || self.next_dispatch.is_some_and(|at| at <= now) {
            self.dispatch(now);
        }
        // 4. The other waiting requests are told how they stand.
        if self.queues.updates.next() <= now && !self.is_changing() {
            self.send_updates(now);
        }
        // 5. Old permits are forgotten.
        if self.permits.next_expiry().is_some_and(|expiry| expiry <= now) {
            self.permits.expire(now);
        }
    }

    /// The next thing to do; call until there is none.
    pub fn poll_command(&mut self) -> Option<Command<R>> {
        self.commands.pop_front()
    }

    /// When to call [`handle`](Scheduler::handle) with [`Event::Wake`], and why. An
    /// overdue wake-up is returned with the time of the last event.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Wakeup> {
        let dispatch = self.next_dispatch.filter(|_| !self.delivery.is_held_up());
        let wakeups = [
            (Reason::Dispatch, if self.is_changing() { Some(self.now) } else { dispatch }),
            (Reason::Progress, (self.waiting() > 0).then_some(self.queues.updates.next())),
            (Reason::Expiry, self.permits.next_expiry()),
            (Reason::PendingAnswers, self.next_pending_timeout()),
            (Reason::Review, self.next_review()),
        ];
        wakeups.into_iter().filter_map(|(reason, at)| Some(Wakeup { at: at?.max(self.now), reason })).min()
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queues.waiting()
    }

    pub(crate) fn push(&mut self, command: Command<R>) {
        self.commands.push_back(command);
    }

    pub(crate) fn refuse(&mut self, to: R, id: Option<PermitId>, refusal: Refusal) {
        self.counters.refused += 1;
        self.push(Command::Refuse { to, id, refusal });
    }

    pub(crate) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Tells `to` the start of the permit in `slot`.
    pub(crate) fn answer(&mut self, now: Time, slot: Slot, to: R, granted: Granted, waited: Span, repeated: bool) {
        let permit = self.permits.get(slot);
        let (id, lease) = (permit.id.clone(), self.resource.leases(&permit.bill).map(|(_, lease)| lease).min());
        let Granted { key, limited_by, class, .. } = granted;
        let delay = key.at.since(now);
        // A repeated answer does not prolong the permit.
        let validity = (key.at + self.resource.spec().validity).since(now + delay);
        self.push(Command::Grant(Grant { to, id, delay, validity, lease, limited_by, class, waited, repeated }));
    }

    /// Commits the permit in `slot` to a start; its request allows none later than `latest`.
    pub(crate) fn commit(&mut self, now: Time, slot: Slot, granted: Granted, tier: Tier, latest: Time) {
        let permit = self.permits.get_mut(slot);
        permit.state = State::Granted(granted);
        let (key, bill) = (granted.key, Arc::clone(&permit.bill));
        self.ledger.commit(now, key, &bill, tier);
        self.ledger.note_start(key.at, &bill);
        self.charge(&bill, key.at);
        if granted.stage == Stage::Told {
            self.delivery.note_told(now, slot, key.serial);
        }
        self.permits.started(slot, self.ledger.end(now, key, &bill), self.resource.is_small(&bill));
        self.counters.granted += 1;
        if let Some(shadow) = &bill.shadow {
            for limit in shadow.applicable().limits() {
                self.shadow_limits.note_granted(now, key, limit, &shadow.only(limit), latest);
            }
        }
    }

    pub(crate) fn tier(&self, class: ClassId) -> Tier {
        self.resource.classes()[class.index()].tier
    }

    /// Aligns windows to another wall clock. A former window's usage counts in every new window
    /// that it overlaps.
    fn anchor(&mut self, now: Time, unix_at_origin: u64) {
        if unix_at_origin == self.resource.unix_at_origin() {
            return;
        }
        self.resource = self.resource.clone().at_unix(unix_at_origin);
        self.ledger.anchor(now, unix_at_origin);
        self.shadow_limits.anchor(now, unix_at_origin);
        self.ledger.note_change();
    }

    /// Refuses all waiting requests, so that they ask the successor.
    fn hand_over(&mut self, now: Time) {
        self.handing_over = true;
        self.give_up_pending(now, now);
        self.begin_edition(now, self.resource.clone());
        self.continue_change(now);
    }
}
