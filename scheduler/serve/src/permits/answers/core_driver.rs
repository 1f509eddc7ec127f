//! Driving the core of one resource: each event goes in, and its commands become answers.

use crate::log_throttle::LogThrottle;
use crate::messages::inbound::Address;
use crate::messages::message_trace::MessageTrace;
use crate::messages::reply::{ReplyTo, Waited, refusal};
use crate::messages::request_trace::{RequestTrace, Waiting};
use crate::permits::answers::delivery::Delivery;
use crate::permits::answers::key_labels::KeyLabels;
use crate::permits::answers::loop_request::{Handover, PendingCheckpoint, Report};
use crate::permits::answers::tally::Tally;
use crate::permits::answers::traces::{SettleTrace, Traces};
use rampmeter_discovery::Discovery;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::explain::Question;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::incoming::Invalid;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::shares::Shares;
use rampmeter_protocol::status::{Counters, LimitStatus, Status};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::command::{Command, Note};
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::ids::LimitId;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::LimitSpec;
use rampmeter_scheduler_core::refusal::Refusal;
use rampmeter_scheduler_core::scheduler::queue_cursor::QueueCursor;
use rampmeter_scheduler_core::scheduler::queue_cursor::Selection;
use rampmeter_scheduler_core::scheduler::{Scheduler, Wakeup};
use rampmeter_scheduler_core::views::Use;
use rampmeter_scheduler_core::wire;
use rampmeter_store::{ClockReading, MAX_PERMITS, RulesRevision};
use rampmeter_telemetry::Spans;
use std::sync::Arc;

/// The most answers that go out at once: one or two milliseconds of work.
const SLICE: usize = 512;

/// The core of one resource, and what becomes of its commands.
///
/// After each call, except those for a hand-over, the core holds no command: each was counted, and
/// its answer is in the outbox.
#[derive(Debug)]
pub(crate) struct CoreDriver {
    core: Scheduler<ReplyTo>,
    discovery: Discovery,
    key_labels: KeyLabels,
    delivery: Delivery,
    tally: Tally,
    traces: Traces,
    /// Throttles log lines on changed capacities, by limit: answers that contradict each other
    /// would fill the log.
    capacity_log: LogThrottle<Name>,
    /// Permits granted, without repeated answers.
    grants: u64,
}

impl CoreDriver {
    pub(crate) fn new(
        (core, discovery): (Scheduler<ReplyTo>, Discovery),
        delivery: Delivery,
        spans: Option<Spans>,
    ) -> Self {
        let tally = Tally::new(core.resource().classes().len());
        let traces = Traces::new(spans, core.resource().name());
        CoreDriver {
            core,
            discovery,
            key_labels: KeyLabels::default(),
            delivery,
            tally,
            traces,
            capacity_log: LogThrottle::default(),
            grants: 0,
        }
    }

    /// Takes an event, and writes all answers that follow from it.
    pub(crate) fn handle(&mut self, now: Time, event: Event<ReplyTo>) {
        self.discovery.handle(&mut self.core, now, event);
        self.log_discovered();
        while let Some(command) = self.core.poll_command() {
            self.answer(now, command);
        }
        while let Some((limit, _)) = self.capacity_log.take_overdue(now) {
            self.log_capacity(&limit);
        }
    }

    fn take_note(&mut self, now: Time, note: &Note) {
        match note {
            Note::CallEnded(taken) => self.tally.calls.observe(*taken),
            Note::CapacityChanged(limit) => {
                let limit = self.core.resource()[*limit].spec().name.clone();
                if self.capacity_log.admit(now, limit.clone()).is_some() {
                    self.log_capacity(&limit);
                }
            }
        }
    }

    fn log_discovered(&mut self) {
        for (limit, evidence) in self.discovery.take_news() {
            let LimitSpec { name, unit, capacity, period, algorithm, .. } = limit;
            let (resource, by, algorithm) = (self.core.resource().name(), evidence.as_str(), algorithm.as_str());
            tracing::info!(%resource, by, "found the limit `{name}`: {capacity} {unit} in {period} ({algorithm})");
        }
    }

    /// Tells people that another capacity counts, because the upstream's responses state it.
    fn log_capacity(&self, limit: &str) {
        let resource = self.core.resource();
        let Some(limit) = resource.limit(limit) else { return };
        let (spec, resource, stated) = (resource[limit].spec(), resource.name(), self.core.stated_capacity(limit));
        let (limit, written) = (&spec.name, spec.capacity.units());
        match stated.map(Amount::units) {
            Some(stated) => {
                tracing::warn!(%resource, "`{limit}` has a capacity of {stated} by the upstream's headers, not {written}");
            }
            None => {
                tracing::info!(%resource, "`{limit}` has its written capacity of {written} by the upstream's headers");
            }
        }
    }

    /// Notes the labels of a request, and warns of keyed limits that skip all requests.
    pub(crate) fn note_labels(&mut self, labels: &Labels<'_>) {
        self.key_labels.warn(self.core.resource(), labels);
    }

    fn answer(&mut self, now: Time, command: Command<ReplyTo>) {
        self.count(&command);
        self.trace(now, &command);
        self.write(now, command);
    }

    fn write(&mut self, now: Time, command: Command<ReplyTo>) {
        let extras = match &command {
            Command::Announce(announcement) => {
                let news = wire::news(self.core.resource(), self.core.epoch(), announcement);
                return self.delivery.announce(&news);
            }
            Command::Note(note) => return self.take_note(now, note),
            Command::Grant(grant) => {
                let left = if grant.to.tells_left() { self.core.left(now, &grant.id) } else { Vec::new() };
                wire::Extras { left, cost: grant.to.cost() }
            }
            Command::Queued { .. }
            | Command::Refuse { .. }
            | Command::RefuseSettle { .. }
            | Command::Settled { .. } => wire::Extras::default(),
        };
        let waited = self.waited(&command);
        let Self { delivery, core, .. } = self;
        wire::answer(core.resource(), now, core.epoch(), command, extras, |to, answer| {
            delivery.outbox().answer_waiting(to, waited, answer);
        });
    }

    fn count(&mut self, command: &Command<ReplyTo>) {
        match command {
            Command::Grant(grant) if !grant.repeated => {
                self.grants += 1;
                self.tally.waits[grant.class.index()].observe(grant.waited + grant.delay);
            }
            Command::Refuse { refusal, .. } => self.tally.refusals.count(refusal.code()),
            Command::RefuseSettle { to, refusal, .. } => self.count_refused_settle(to.is_some(), refusal.code()),
            Command::Grant(_)
            | Command::Queued { .. }
            | Command::Settled { .. }
            | Command::Announce(_)
            | Command::Note(_) => {}
        }
    }

    /// Ends the span of a request that is answered, if it is recorded.
    fn trace(&mut self, now: Time, command: &Command<ReplyTo>) {
        let limit = |limit: Option<LimitId>| Some(self.core.resource()[limit?].spec().name.clone());
        match command {
            Command::Grant(grant) => {
                if let Some(trace) = grant.to.trace() {
                    self.traces.granted(now, trace, grant, limit(grant.limited_by));
                }
            }
            Command::Refuse { to, refusal, .. } => {
                if let Some(trace) = to.trace() {
                    self.traces.refused(now, trace, refusal.code(), limit(refusal.limited_by()));
                }
            }
            Command::Queued { .. }
            | Command::RefuseSettle { .. }
            | Command::Settled { .. }
            | Command::Announce(_)
            | Command::Note(_) => {}
        }
    }

    /// The trace of a request that comes at `now`, if it is recorded.
    pub(crate) fn begin_trace(
        &self,
        now: Time,
        asked: (&PermitRequest<'_>, Option<&Name>),
        message: (Option<&MessageTrace>, usize),
    ) -> Option<Arc<RequestTrace>> {
        self.traces.begin(now, self.core.resource(), asked, message)
    }

    /// Notes in the trace of the request `id` what holds it, if it waits.
    pub(crate) fn note_waiting(&self, now: Time, trace: &RequestTrace, id: &PermitId) {
        if let Some((position, limit, reason)) = self.core.held_by(now, id) {
            let limit = limit.map(|limit| self.core.resource()[limit].spec().name.clone());
            trace.note_waiting(Waiting { position, limit, reason });
        }
    }

    /// The trace of a settle, if it is recorded.
    pub(crate) fn trace_of_settle(
        &self,
        settle: &Settle<'_>,
        message: (Option<&MessageTrace>, usize),
    ) -> Option<SettleTrace> {
        self.traces.of_settle(settle, message)
    }

    /// Records a settle that comes at `now`.
    pub(crate) fn note_settled(&mut self, now: Time, trace: &SettleTrace, settle: &Settle<'_>) {
        self.traces.settled(now, self.core.resource(), trace, settle);
    }

    /// Counts a refused settle. If an answer is wanted, it also counts as a refusal.
    pub(crate) fn count_refused_settle(&mut self, is_answered: bool, code: Code) {
        self.tally.refused_settles.count(code);
        if is_answered {
            self.tally.refusals.count(code);
        }
    }

    /// The request that has waited for this answer. Most requests are answered at once: their ids
    /// are not copied.
    fn waited(&mut self, command: &Command<ReplyTo>) -> Option<Waited> {
        match command {
            Command::Grant(grant) if grant.repeated => {
                self.delivery.undelivered().note_repeated(&grant.id);
                None
            }
            Command::Grant(grant) => {
                (grant.waited > Span::ZERO).then(|| Waited { id: grant.id.clone(), is_grant: true })
            }
            Command::Queued { id, .. } => Some(Waited { id: id.clone(), is_grant: false }),
            Command::Refuse { .. }
            | Command::RefuseSettle { .. }
            | Command::Settled { .. }
            | Command::Announce(_)
            | Command::Note(_) => None,
        }
    }

    /// Refuses a request for a reason of the core's.
    pub(crate) fn refuse(&mut self, now: Time, to: ReplyTo, id: Option<PermitId>, refusal: Refusal) {
        self.answer(now, Command::Refuse { to, id, refusal });
    }

    /// Refuses a message that the core does not see.
    pub(crate) fn refuse_with(&mut self, to: ReplyTo, id: Option<&PermitId>, code: Code, message: String) {
        self.tally.refusals.count(code);
        let refusal = refusal(id.map(PermitId::as_str), code, message, self.core.epoch());
        self.delivery.outbox().answer(to, &refusal);
    }

    /// The same for a request that came at `now` and may be recorded.
    pub(crate) fn refuse_traced(&mut self, now: Time, to: ReplyTo, id: Option<&PermitId>, why: (Code, String)) {
        let (code, message) = why;
        if let Some(trace) = to.trace() {
            self.traces.refused(now, trace, code, None);
        }
        self.refuse_with(to, id, code, message);
    }

    /// Refuses a message that is not of the protocol.
    pub(crate) fn refuse_invalid(&mut self, to: ReplyTo, id: Option<&PermitId>, message: String) {
        self.refuse_with(to, id, Code::InvalidRequest, message);
    }

    /// Answers why requests wait. A question without an answer counts as no refusal: it asks for no
    /// permit.
    pub(crate) fn explain(&mut self, now: Time, to: Address, question: Result<Question, Invalid>) {
        match question {
            Ok(question) => match self.core.explain(now, &question) {
                Ok(mut explanation) => {
                    self.describe(&mut explanation.limits, now);
                    self.delivery.outbox().send(to, &explanation);
                }
                Err(refusal) => {
                    let id = question.id.or(question.after);
                    self.write(now, Command::Refuse { to: ReplyTo::alone(to), id, refusal });
                }
            },
            Err(invalid) => {
                let id = invalid.id.as_ref().map(PermitId::as_str);
                let refusal = refusal(id, Code::InvalidRequest, invalid.to_string(), self.core.epoch());
                self.delivery.outbox().answer(ReplyTo::alone(to), &refusal);
            }
        }
    }

    /// Answers that there is no time for a question. This counts as no refusal, either.
    pub(crate) fn put_off(&mut self, to: Address) {
        let message = "too many questions at once; ask again in a second".to_owned();
        let refusal = refusal(None, Code::QueueFull, message, self.core.epoch());
        self.delivery.outbox().answer(ReplyTo::alone(to), &refusal);
    }

    /// The state to be written next, if the core wants one written.
    pub(crate) fn checkpoint(&mut self, now: Time, rules_revision: RulesRevision) -> Option<PendingCheckpoint> {
        let checkpoint = self.core.checkpoint(now)?;
        let (epoch, moment) = (self.core.epoch(), ClockReading::now());
        let discovered = self.discovery.snapshot(now);
        Some(PendingCheckpoint { checkpoint, discovered, epoch, moment, rules_revision, named_epoch: None })
    }

    /// The whole state, for a successor.
    pub(crate) fn handover(&mut self, now: Time, rules_revision: RulesRevision) -> Handover {
        let snapshot = self.core.snapshot(now, MAX_PERMITS);
        let (discovered, used) = (self.discovery.snapshot(now), self.core.take_use());
        Handover { snapshot, discovered, epoch: self.core.epoch(), moment: ClockReading::now(), rules_revision, used }
    }

    /// Sends all waiting requests elsewhere, slice by slice. Between two slices the connection
    /// takes the answers, and other loops of this thread go on.
    pub(crate) async fn send_elsewhere(&mut self, now: Time) {
        self.discovery.handle(&mut self.core, now, Event::HandOver);
        while let Some(first) = self.core.poll_command() {
            self.answer(now, first);
            for _ in 1..SLICE {
                let Some(command) = self.core.poll_command() else { break };
                self.answer(now, command);
            }
            self.delivery.publish().await;
            tokio::task::yield_now().await;
            // Makes the core refuse the next requests.
            self.core.handle(now, Event::Wake);
        }
    }

    /// Publishes all answers, and gives up on requests of this process whose tasks take no answer
    /// any more.
    pub(crate) async fn publish(&mut self, now: impl Fn() -> Time) {
        self.delivery.publish().await;
        while let Some(gone) = self.delivery.undelivered().take_own() {
            gone.into_iter().for_each(|waited| self.give_up_on(now(), waited));
            self.delivery.publish().await;
        }
    }

    /// Takes the server's notice that an answer has reached no client.
    pub(crate) fn take_no_responders(&mut self, now: Time, notice: &async_nats::Message) {
        if let Some(waited) = self.delivery.undelivered().take_no_responders(now, notice) {
            self.give_up_on(now, waited);
        }
    }

    fn give_up_on(&mut self, now: Time, Waited { id, is_grant }: Waited) {
        self.tally.undelivered += 1;
        self.handle(now, Event::Undelivered { id, is_grant });
    }

    /// One step of the walk along requests whose connections may be gone.
    pub(crate) fn probe_on(&mut self, now: Time) {
        let Self { core, delivery, .. } = self;
        if delivery.undelivered().step(|walk, may_be_gone| core.probe(now, walk, may_be_gone)) {
            self.handle(now, Event::Wake);
        }
    }

    /// One step of a walk that ends waits: how many it has ended, and where the walk goes on.
    pub(crate) fn purge_on(
        &mut self,
        now: Time,
        walk: QueueCursor,
        selection: &Selection,
    ) -> (usize, Option<QueueCursor>) {
        let (ended, walk) = self.core.purge(walk, selection);
        self.handle(now, Event::Wake);
        (ended, walk)
    }

    /// The limits, all or only `chosen`, for which calls wait because of a freeze or a spent quota.
    pub(crate) fn paused(&self, now: Time, chosen: Option<LimitId>) -> Vec<LimitId> {
        self.core.paused(now, chosen)
    }

    /// The status, except for the sources of the limits.
    pub(crate) fn status(&mut self, now: Time, leader: &str) -> Status {
        let delay = self.core.delay_of_next(now);
        let (limited_by, reason, held_by) = match delay {
            Some((limit, reason, held_by)) => (Some(limit), Some(reason), held_by),
            None => (None, None, None),
        };
        let mut limits = self.core.limit_status(now);
        self.describe(&mut limits, now);
        Status {
            limits,
            classes: self.core.class_status(now),
            resource: self.core.resource().name().clone(),
            epoch: self.core.epoch(),
            leader: leader.to_owned(),
            counters: Counters { refused: self.tally.refusals.total(), ..self.core.counters() },
            limited_by: limited_by.map(|limit| self.core.resource()[limit].spec().name.clone()),
            reason,
            held_by,
            provider: None,
            rules: None,
            differing: Vec::new(),
            forecasts: Vec::new(),
            corrections: self.core.corrections(),
            limits_toml: None,
            shares: None,
        }
    }

    /// Adds to the status of limits what is known outside the core.
    fn describe(&self, limits: &mut [LimitStatus], now: Time) {
        self.key_labels.describe(limits);
        self.discovery.describe(limits, now);
    }

    /// What was used since the last call.
    pub(crate) fn take_use(&mut self) -> Use {
        self.core.take_use()
    }

    /// How classes and clients share the resource.
    pub(crate) fn shares(&mut self, now: Time) -> Shares {
        self.core.shares(now)
    }

    /// A report of `status` with all that was counted.
    pub(crate) fn report(&self, now: Time, status: Status) -> Report {
        Report {
            status,
            tally: self.tally.clone(),
            remembered: self.core.remembered(),
            calls_in_flight: self.core.calls_in_flight(now),
            useful_workers: self.core.useful_workers(now),
        }
    }

    pub(crate) fn delivery(&mut self) -> &mut Delivery {
        &mut self.delivery
    }

    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// All limits as they count now, including discovered ones.
    pub(crate) fn limits_in_force(&self) -> Vec<LimitSpec> {
        self.discovery.limits_in_force(self.core.resource())
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.core.resource()
    }

    pub(crate) fn scheduler(&self) -> &Scheduler<ReplyTo> {
        &self.core
    }

    /// The resource with the written limits alone.
    pub(crate) fn written(&self) -> &Resource {
        self.discovery.written(self.core.resource())
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.core.epoch()
    }

    /// Permits granted in this term, without repeated answers.
    pub(crate) fn grants(&self) -> u64 {
        self.grants
    }

    /// The latest time at which the core wants an event, and why.
    pub(crate) fn next_wakeup(&self) -> Option<Wakeup> {
        self.discovery.next_wakeup(&self.core)
    }

    /// When the core wants a checkpoint written.
    pub(crate) fn next_checkpoint(&self) -> Option<Time> {
        self.core.next_checkpoint()
    }

    /// Whether the core grants permits again after a doubt.
    pub(crate) fn is_trusted(&self) -> bool {
        self.core.is_trusted()
    }

    /// The way of the answers, to look at.
    pub(crate) fn outlet(&self) -> &Delivery {
        &self.delivery
    }
}
