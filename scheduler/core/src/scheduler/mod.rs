//! The scheduler of one resource: takes events, and gives commands.
//!
//! Its state consists of parts. Most state an invariant, which their own methods keep; some fields
//! are open to the rest of the crate. Steps that need several parts are methods of the scheduler.

mod change;
mod choice;
mod dispatch;
mod dispatch_plan;
mod estimates;
mod feedback;
mod granting;
mod pending;
mod pending_answers;
pub mod settle;
pub mod waiting;

use crate::adaptation::{CostEstimates, RecentCalls, Rejections};
use crate::command::Command;
use crate::event::Event;
use crate::fencing::Term;
use crate::ledger::usage_meter::Use;
use crate::ledger::{Ledger, ShadowLimits, UsageMeter};
use crate::limits::StartKey;
use crate::permits::Permits;
use crate::queue::{Queues, RecentService};
use dispatch_plan::DispatchPlan;
use pending_answers::PendingAnswers;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::{Bill, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::status::{Correction, Counters};
use rampmeter_protocol::time::Time;
use rampmeter_protocol::wall_clock::WallClockOrigin;
use std::collections::{BTreeMap, VecDeque};

/// Owns the buckets of one resource and decides when each call may start.
///
/// Call [`handle`](Scheduler::handle) with each event, then take all commands with
/// [`poll_command`](Scheduler::poll_command). If no event comes before
/// [`next_wakeup`](Scheduler::next_wakeup), handle [`Event::Wake`] then. Time must not go back.
///
/// Guarantees, as long as calls start when their permits say:
///
/// * Each start finds in every bucket what its call costs, besides the margin.
/// * A refused request changes nothing, and a repeated id is charged once.
///
/// Not promised: a call that costs more than estimated debits its bucket, which may then lack stock
/// for earlier promises.
///
/// ```
/// use rampmeter_protocol::{amount::Amount, epoch::Epoch, id::PermitId, labels::Labels, name::Name, request::Mode, time::{Span, Time}};
/// use rampmeter_scheduler_core::command::Command;
/// use rampmeter_scheduler_core::event::{Ask, Event};
/// use rampmeter_policy::Resource;
/// use rampmeter_scheduler_core::scheduler::Scheduler;
/// use rampmeter_policy::spec::{LimitSpec, Margin, ResourceSpec};
///
/// let name = |name| Name::new(name).unwrap();
/// let two_per_second = LimitSpec {
///     margin: Margin::Fixed(Amount::ZERO),
///     ..LimitSpec::new(name("per-second"), name("requests"), Amount::new(2.0)?, Span::from_secs(1))
/// };
/// let resource = Resource::new(&ResourceSpec::new(name("api"), vec![two_per_second]))?;
/// let bill = resource.bill(&Labels::new(), [].into_iter())?;
/// let class = resource.default_class();
/// let mut scheduler = Scheduler::new(resource, Epoch::FIRST, Time::ORIGIN);
/// let mut delays = Vec::new();
/// for worker in ["a", "b", "c"] {
///     let ask = Ask::new(worker, PermitId::new(worker)?, bill.clone(), class, Mode::Reserve);
///     scheduler.handle(Time::ORIGIN, Event::Ask(ask));
///     while let Some(command) = scheduler.poll_command() {
///         if let Command::Grant(grant) = command {
///             delays.push(grant.delay);
///         }
///     }
/// }
/// assert_eq!(delays, [Span::ZERO, Span::ZERO, Span::from_millis(500)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Scheduler<R> {
    pub(crate) resource: Resource,
    pub(crate) term: Term,
    pub(crate) ledger: Ledger,
    pub(crate) shadow_limits: ShadowLimits,
    pub(crate) permits: Permits<R>,
    /// The start and charges of each call that a predecessor's record names as unsettled.
    pub(crate) unsettled: BTreeMap<PermitId, (StartKey, Bill)>,
    pub(crate) pending: PendingAnswers<R>,
    /// Whether answers are late, so that waiting requests are granted nothing.
    answers_are_late: bool,
    pub(crate) queues: Queues,
    pub(crate) recent: RecentService,
    plan: DispatchPlan,
    /// The serial of the start for which each account was chosen last.
    chosen: Vec<u64>,
    pub(crate) calls: RecentCalls,
    pub(crate) rejections: Rejections,
    cost_estimates: CostEstimates,
    pub(crate) meter: UsageMeter,
    counters: Counters,
    outbox: VecDeque<Command<R>>,
    pub(crate) now: Time,
}

/// When the driver has to come back, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wakeup {
    /// The time.
    pub at: Time,
    /// The reason.
    pub reason: WakeupReason,
}

/// Why the driver has to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeupReason {
    /// A waiting request may start, is to be promoted, or misses its deadline.
    Dispatch,
    /// Waiting requests get updates.
    Progress,
    /// Old permits are forgotten.
    Expiry,
    /// Answers that have waited too long for the store become refusals.
    PendingAnswers,
    /// The lessons about the upstream are reviewed.
    Review,
}

impl<R: Clone> Scheduler<R> {
    /// Creates a scheduler that takes over `resource` at `now`, without any record of it.
    #[must_use]
    pub fn new(resource: Resource, epoch: Epoch, now: Time) -> Self {
        Scheduler {
            term: Term::new(&resource, epoch, now),
            ledger: Ledger::new(&resource, now),
            shadow_limits: ShadowLimits::new(&resource, now),
            permits: Permits::new(resource.spec().bounds.max_permits),
            unsettled: BTreeMap::new(),
            pending: PendingAnswers::new(),
            answers_are_late: false,
            queues: Queues::new(&resource, now),
            recent: RecentService::new(now),
            plan: DispatchPlan::default(),
            chosen: vec![0; resource.spec().accounts.len()],
            calls: RecentCalls::default(),
            rejections: Rejections::default(),
            cost_estimates: CostEstimates::default(),
            meter: UsageMeter::new(&resource),
            counters: Counters::default(),
            outbox: VecDeque::new(),
            now,
            resource,
        }
    }

    /// Adds a store that holds no checkpoint yet: only what stored checkpoints cover is granted.
    /// The driver has to write a [`checkpoint`](Scheduler::checkpoint) when
    /// [`next_checkpoint`](Scheduler::next_checkpoint) says so, and to report once it is stored.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.term = self.term.fenced();
        self
    }

    /// Notes that all predecessors are gone, so that settles of their calls arrive here alone. Each
    /// frees one of the places that a predecessor has left. Otherwise, settles free them once no
    /// predecessor can grant anything any more.
    pub fn lead_alone(&mut self) {
        self.term.leads_alone = true;
    }

    /// Numbers new pages of keys from this one on. Schedulers that contend for a term start at
    /// different numbers, so that none overwrites a page that another refers to.
    #[must_use]
    pub fn with_pages_from(mut self, first: u32) -> Self {
        self.ledger.keys.pages.first_unused = first;
        self
    }

    /// Returns when to write the next checkpoint, but not before the outcome of the last write is
    /// known. `None` if the scheduler is not [fenced](Scheduler::fenced).
    #[must_use]
    pub fn next_checkpoint(&self) -> Option<Time> {
        self.term.budget.next_checkpoint()
    }

    /// Returns whether no other scheduler can have led since the last [`Event::Doubt`].
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.term.budget.is_trusted()
    }

    /// Returns the resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the leader's epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.term.epoch()
    }

    /// Handles an event that happens at `now`.
    ///
    /// # Panics
    /// If `now` is before the time of an earlier event.
    pub fn handle(&mut self, now: Time, event: Event<R>) {
        self.pass_time(now);
        // 1. Limits are adapted to what was learned, and promised starts that are past are spent.
        if self.ledger.next_review().is_some_and(|review| review <= now) {
            self.ledger.review(now);
        }
        self.ledger.advance(now);
        self.ledger.keys.forget_unused(now);
        self.shadow_limits.advance(now);
        // 2. The event.
        self.apply(now, event);
        // 3. Waiting requests that can start are granted their starts.
        let changed = self.ledger.take_change() && (self.waiting() > 0 || !self.ledger.keys.changed.is_empty());
        if changed || self.plan.next.is_some_and(|at| at <= now) {
            self.dispatch(now);
        }
        // 4. The other waiting requests get updates.
        if self.queues.next_update().is_some_and(|at| at <= now) {
            self.send_updates(now);
        }
        // 5. Old permits are forgotten.
        if self.permits.next_expiry().is_some_and(|expiry| expiry <= now) {
            self.permits.expire(now);
        }
    }

    fn apply(&mut self, now: Time, event: Event<R>) {
        match event {
            Event::Ask(ask) => self.correct_and_ask(now, ask),
            Event::Settle(settle) => self.settle(now, settle),
            Event::HigherEpochNamed => self.term.budget.hasten_checkpoint(),
            Event::Wake => self.time_out_pending(now),
            Event::WallClock(wall_clock) => self.anchor(now, wall_clock),
            Event::Delivered => self.delivered(),
            Event::AnswersLate => self.answers_are_late = true,
            Event::Undelivered { id, is_grant } => self.undelivered(now, &id, is_grant),
            Event::CheckpointStored(number) => self.checkpoint_stored(now, number),
            Event::CheckpointWitnessed(number) => self.checkpoint_witnessed(now, number),
            Event::CheckpointRefused(number) => self.term.refuse(number),
            Event::StoreReplaced { epoch } => self.distrust_stock(now, epoch),
            Event::EpochConfirmed(epoch) => self.term.raise_epoch(epoch),
            Event::Doubt => self.term.budget.doubt(),
            Event::HandOver => self.hand_over(now),
            Event::Levels { asked, answered, levels } => self.compare_levels(now, asked, answered, &levels),
            Event::Discovered { resource, left } => self.change_limits(now, *resource, &left),
            Event::Capacity { limit, capacity } => self.ledger.adaptive_mut(limit).set_capacity_in_force(now, capacity),
            Event::Limits(resource) => self.change_limits(now, *resource, &[]),
            Event::Thaw(limits) => self.thaw(now, &limits),
            Event::Freeze { limits, span } => self.freeze_by_order(now, &limits, span),
            Event::Empty(limits) => self.empty(now, &limits),
        }
    }

    pub(crate) fn pass_time(&mut self, now: Time) {
        assert!(self.now <= now, "time does not go back: {now:?} is before {:?}", self.now);
        self.now = now;
    }

    fn refuse(&mut self, to: R, id: PermitId, refusal: Refusal) {
        self.outbox.push_back(Command::Refuse { to, id: Some(id), refusal });
    }

    /// Returns the next command. Call this until there is none.
    pub fn poll_command(&mut self) -> Option<Command<R>> {
        self.outbox.pop_front()
    }

    /// Returns when to call [`handle`](Scheduler::handle) with [`Event::Wake`], and why. An overdue
    /// wake-up has the time of the last event.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Wakeup> {
        let wakeups = [
            (WakeupReason::Dispatch, self.plan.next.filter(|_| !self.answers_are_late)),
            (WakeupReason::Progress, self.queues.next_update()),
            (WakeupReason::Expiry, self.permits.next_expiry()),
            (WakeupReason::PendingAnswers, self.pending.next_timeout()),
            (WakeupReason::Review, self.ledger.next_review().filter(|_| self.waiting() > 0)),
        ];
        wakeups.into_iter().filter_map(|(reason, at)| Some(Wakeup { at: at?.max(self.now), reason })).min()
    }

    /// Returns the number of waiting requests.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queues.waiting()
    }

    /// Aligns windows to another wall clock. A window's usage counts in each new one that overlaps.
    fn anchor(&mut self, now: Time, wall_clock: WallClockOrigin) {
        if wall_clock == self.resource.wall_clock() {
            return;
        }
        self.resource = self.resource.clone().with_wall_clock(wall_clock);
        self.ledger.anchor(now, &self.resource);
        self.shadow_limits.anchor(now, wall_clock);
    }

    /// Returns the learned corrections of cost estimates, by kind of call.
    #[must_use]
    pub fn corrections(&self) -> Vec<Correction> {
        self.cost_estimates.report()
    }

    /// Returns totals since the start of this scheduler. The driver counts refusals, as it also
    /// refuses messages that the core does not see. Rejections are unknown until their cause is
    /// known.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.rejections.unknown += self.rejections.undecided();
        counters
    }

    /// Returns the capacity in force of a limit, if it is not that of the resource.
    #[must_use]
    pub fn capacity_in_force(&self, limit: LimitId) -> Option<Amount> {
        self.ledger.adaptive(limit).estimator().stated()
    }

    /// Returns the capacity that the upstream states, if that counts in place of the written one.
    #[must_use]
    pub fn stated_capacity(&self, limit: LimitId) -> Option<Amount> {
        self.ledger.adaptive(limit).stated().map(|stated| stated.capacity)
    }

    /// Returns the limits, all or only `chosen`, whose calls wait for a freeze or a spent quota.
    #[must_use]
    pub fn paused(&self, now: Time, chosen: Option<LimitId>) -> Vec<LimitId> {
        let all = self.resource.limits_by_id().map(|(limit, _)| limit);
        let chosen = all.filter(|limit| chosen.is_none_or(|chosen| chosen == *limit));
        chosen.filter(|limit| self.ledger.is_paused(now, *limit)).collect()
    }

    /// Returns the number of remembered permits.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.permits.len()
    }

    /// Removes and returns the use since the last call, by client and class, and by limit. Calls
    /// count when granted; corrections by later settles may make a sum negative.
    pub fn take_use(&mut self) -> Use {
        self.meter.take(&self.resource)
    }

    /// Spends what was promised until `now`, so that the buckets can be read.
    pub(crate) fn advance(&mut self, now: Time) {
        self.pass_time(now);
        self.ledger.advance(now);
        self.recent.advance(now);
    }
}
