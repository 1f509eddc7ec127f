//! Drives the core of one resource: events go in, and commands become answers.

use crate::messages::inbound::Address;
use crate::messages::reply::{ReplyTo, Waited};
use crate::messages::request_trace::{RequestTrace, Waiting};
use crate::permits::answers::costed_units::CostedUnits;
use crate::permits::answers::key_labels::KeyLabels;
use crate::permits::answers::loop_request::{Handover, LoopState, Report};
use crate::permits::answers::outbox::Outbox;
use crate::permits::answers::pauses::{AnsweredCall, Pauses};
use crate::permits::answers::tally::Tally;
use crate::permits::answers::traces::{SettleTrace, Traces};
use rampmeter_discovery::Discovery;
use rampmeter_policy::Resource;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::observation::Verdict;
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::spec::LimitSpec;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::answer::{Answer, Refused};
use rampmeter_protocol::code::Code;
use rampmeter_protocol::explain::Question;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::incoming::Invalid;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::log_throttle::LogThrottle;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::shares::Shares;
use rampmeter_protocol::status::{Counters, LimitStatus, Status};
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::checkpoint_number::CheckpointNumber;
use rampmeter_scheduler_core::command::{Command, Grant, Note, PauseNote};
use rampmeter_scheduler_core::durability::checkpoint::Checkpoint;
use rampmeter_scheduler_core::event::{self, Event};
use rampmeter_scheduler_core::scheduler::waiting::{QueueCursor, Selection};
use rampmeter_scheduler_core::scheduler::{Scheduler, Wakeup};
use rampmeter_scheduler_core::views::Use;
use rampmeter_scheduler_core::wire;
use rampmeter_store::{MAX_PERMITS, RulesRevision};

/// Bound on the answers that go out at once: one or two milliseconds of work.
const SLICE: usize = 512;

/// When a client that found no room for bodies or questions asks again.
const COME_BACK_MS: f64 = 1000.0;

/// The core of one resource, and the handling of its commands. After each call, except those for a
/// hand-over, the core holds no command: each was counted, and its answer is in the outbox.
#[derive(Debug)]
pub(crate) struct CoreDriver {
    core: Scheduler<ReplyTo>,
    discovery: Discovery,
    key_labels: KeyLabels,
    pub(crate) outbox: Outbox,
    pub(crate) tally: Tally,
    pub(crate) traces: Traces,
    /// Throttles log lines on changed capacities, by limit, because contradictory responses would fill the log.
    capacity_log: LogThrottle<Name>,
    pauses: Pauses,
    /// The call whose response is being handled, if the upstream rejected it.
    rejected: Option<AnsweredCall>,
    costed_units: CostedUnits,
    /// Permits granted in this term, without repeated grants.
    grants: u64,
}

impl CoreDriver {
    pub(crate) fn new(core: Scheduler<ReplyTo>, discovery: Discovery, outbox: Outbox, traces: Traces) -> Self {
        CoreDriver {
            tally: Tally::new(core.resource().classes().len()),
            core,
            discovery,
            key_labels: KeyLabels::default(),
            outbox,
            traces,
            capacity_log: LogThrottle::default(),
            pauses: Pauses::default(),
            rejected: None,
            costed_units: CostedUnits::default(),
            grants: 0,
        }
    }

    pub(crate) fn core(&self) -> &Scheduler<ReplyTo> {
        &self.core
    }

    /// Returns the resource with only the written limits.
    pub(crate) fn written(&self) -> &Resource {
        self.discovery.written(self.core.resource())
    }

    pub(crate) fn grants(&self) -> u64 {
        self.grants
    }

    /// Returns all limits in force, including discovered ones.
    pub(crate) fn limits_in_force(&self) -> Vec<LimitSpec> {
        self.discovery.limits_in_force(self.core.resource())
    }

    pub(crate) fn next_wakeup(&self) -> Option<Wakeup> {
        self.discovery.next_wakeup(&self.core)
    }

    /// Passes an event to the core, and writes all resulting answers.
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

    fn log_discovered(&mut self) {
        for (limit, evidence) in self.discovery.take_news() {
            let LimitSpec { name, unit, capacity, period, algorithm, .. } = limit;
            let (resource, by, algorithm) = (self.core.resource().name(), evidence.as_str(), algorithm.as_str());
            tracing::info!(%resource, by, "found the limit `{name}`: {capacity} {unit} in {period} ({algorithm})");
        }
    }

    /// Logs that the capacity in the upstream's responses now applies.
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

    /// Logs that the upstream states another capacity than the file, which is not applied.
    fn log_announced(&self, limit: LimitId, stated: Amount) {
        let (spec, resource) = (self.core.resource()[limit].spec(), self.core.resource().name());
        let (limit, written, period) = (&spec.name, spec.capacity, spec.period);
        tracing::warn!(%resource, "the upstream states {stated} in {period} for `{limit}`, the file says {written}");
    }

    /// Notes the labels of a request, and warns of keyed limits that skip every request.
    pub(crate) fn note_labels(&mut self, labels: &Labels<'_>) {
        self.key_labels.warn(self.core.resource(), labels);
    }

    /// Counts a command, ends the span of its request, and writes the answer.
    fn answer(&mut self, now: Time, command: Command<ReplyTo>) {
        match &command {
            Command::Grant(grant) => self.note_grant(now, grant),
            Command::Refuse { to, refusal, .. } => {
                let limit = refusal.limited_by();
                self.note_refusal(now, to, refusal.code(), limit);
            }
            Command::RefuseSettle { to, refusal, .. } => self.count_refused_settle(to.is_some(), refusal.code()),
            Command::Announce(freeze) => {
                let news = wire::news(self.core.resource(), self.core.epoch(), freeze);
                return self.outbox.announce(&news);
            }
            Command::Note(Note::CallEnded(taken)) => return self.tally.calls.observe(*taken),
            Command::Note(Note::CapacityChanged(limit)) => {
                let limit = self.limit_name(*limit);
                if self.capacity_log.admit(now, limit.clone()).is_some() {
                    self.log_capacity(&limit);
                }
                return;
            }
            Command::Note(Note::Paused(pause)) => return self.note_pause(now, pause),
            Command::Note(Note::CapacityStated(limit, stated)) => return self.log_announced(*limit, *stated),
            Command::Queued { .. } | Command::Settled { .. } => {}
        }
        self.write(now, command);
    }

    /// Handles a settle whose response had `status`, and logs what that has paused.
    pub(crate) fn settle(&mut self, now: Time, settle: event::Settle<ReplyTo>, status: u16, user: Option<&str>) {
        if settle.observation.as_ref().is_some_and(|seen| seen.verdict != Verdict::Passed) {
            let (class, client) = self.core.caller_of(&settle.id).unzip();
            let class = class.map(|class| self.core.resource().classes()[class.index()].name.clone());
            let client = client.flatten().or(user).map(str::to_owned);
            self.rejected = Some(AnsweredCall { status, class, client });
        }
        self.handle(now, Event::Settle(settle));
        self.rejected = None;
    }

    fn note_pause(&mut self, now: Time, pause: &PauseNote) {
        let limit = self.limit_name(pause.bucket.0);
        if let Some(call) = &self.rejected {
            self.pauses.note(now, self.core.resource().name(), limit, pause, call);
        }
    }

    fn note_grant(&mut self, now: Time, grant: &Grant<ReplyTo>) {
        if grant.repeated {
            self.outbox.undelivered.note_repeated(&grant.id);
        } else {
            self.grants += 1;
            self.costed_units.note_call(now);
            self.tally.waits[grant.class.index()].observe(grant.waited + grant.delay);
        }
        if let Some(trace) = &grant.to.trace {
            let limit = grant.limited_by.map(|limit| self.limit_name(limit));
            self.traces.granted(now, trace, grant, limit);
        }
    }

    fn note_refusal(&mut self, now: Time, to: &ReplyTo, code: Code, limit: Option<LimitId>) {
        self.tally.refusals.count(code);
        if let Some(trace) = &to.trace {
            let limit = limit.map(|limit| self.limit_name(limit));
            self.traces.refused(now, trace, code, limit);
        }
    }

    /// Writes the answer of a command. Only requests that have waited need their id to find undelivered answers.
    fn write(&mut self, now: Time, command: Command<ReplyTo>) {
        let (mut extras, mut waited) = (wire::Extras::default(), None);
        match &command {
            Command::Grant(grant) => {
                if grant.to.tells_left {
                    extras.left = self.core.left(now, &grant.id);
                }
                extras.cost = grant.to.cost.as_deref().cloned().unwrap_or_default();
                let has_waited = !grant.repeated && grant.waited > Span::ZERO;
                waited = has_waited.then(|| Waited { id: grant.id.clone(), is_grant: true });
            }
            Command::Queued { id, .. } => waited = Some(Waited { id: id.clone(), is_grant: false }),
            Command::Refuse { .. }
            | Command::RefuseSettle { .. }
            | Command::Settled { .. }
            | Command::Announce(_)
            | Command::Note(_) => {}
        }
        let Self { outbox, core, .. } = self;
        wire::answer(core.resource(), now, core.epoch(), command, extras, |to, answer| {
            outbox.answer_waiting(to, waited, answer);
        });
    }

    fn limit_name(&self, limit: LimitId) -> Name {
        self.core.resource()[limit].spec().name.clone()
    }

    pub(crate) fn note_settled(&mut self, now: Time, trace: &SettleTrace, settle: &Settle<'_>) {
        self.traces.settled(now, self.core.resource(), trace, settle);
    }

    /// Notes in the trace of the request `id` what holds it, if it waits.
    pub(crate) fn note_waiting(&mut self, now: Time, trace: &RequestTrace, id: &PermitId) {
        if let Some((position, limit, reason)) = self.core.held_by(now, id) {
            trace.note_waiting(Waiting { position, limit: limit.map(|limit| self.limit_name(limit)), reason });
        }
    }

    /// Counts a refused settle. If an answer is wanted, it also counts as a refusal.
    pub(crate) fn count_refused_settle(&mut self, is_answered: bool, code: Code) {
        self.tally.refused_settles.count(code);
        if is_answered {
            self.tally.refusals.count(code);
        }
    }

    /// Refuses a request on the core's behalf.
    pub(crate) fn refuse(&mut self, now: Time, to: ReplyTo, id: Option<PermitId>, refusal: Refusal) {
        self.answer(now, Command::Refuse { to, id, refusal });
    }

    /// Refuses a message that is not passed to the core.
    pub(crate) fn refuse_with(&mut self, now: Time, to: ReplyTo, id: Option<&PermitId>, code: Code, message: String) {
        self.note_refusal(now, &to, code, None);
        self.write_refusal(to, id, code, message);
    }

    pub(crate) fn refuse_invalid(&mut self, now: Time, to: ReplyTo, id: Option<&PermitId>, message: String) {
        self.refuse_with(now, to, id, Code::InvalidRequest, message);
    }

    fn write_refusal(&mut self, to: ReplyTo, id: Option<&PermitId>, code: Code, message: String) {
        let (id, epoch) = (id.map(|id| Text::from(id.as_str())), self.core.epoch());
        let retry_after_ms = (code == Code::QueueFull).then_some(COME_BACK_MS);
        self.outbox.answer(to, &Answer::Refused(Refused { id, epoch, retry_after_ms, ..Refused::new(code, message) }));
    }

    /// Answers why requests wait. A failed question does not count as a refusal, since it asks for no permit.
    pub(crate) fn explain(&mut self, now: Time, to: Address, question: Result<Question, Invalid>) {
        match question {
            Ok(question) => match self.core.explain(now, &question) {
                Ok(mut explanation) => {
                    self.describe(&mut explanation.limits, now);
                    self.outbox.send(to, &explanation);
                }
                Err(refusal) => {
                    self.write(now, Command::Refuse { to: ReplyTo::alone(to), id: question.id, refusal });
                }
            },
            Err(invalid) => {
                self.write_refusal(ReplyTo::alone(to), invalid.id.as_ref(), Code::InvalidRequest, invalid.to_string());
            }
        }
    }

    /// Answers that there is no time for a question. This does not count as a refusal either.
    pub(crate) fn put_off(&mut self, to: Address) {
        let message = "too many questions at once; ask again in a second".to_owned();
        self.write_refusal(ReplyTo::alone(to), None, Code::QueueFull, message);
    }

    /// Returns the state to be written next, if the core wants one written.
    pub(crate) fn checkpoint(&mut self, now: Time, rules_revision: RulesRevision) -> Option<LoopState> {
        let checkpoint = self.core.checkpoint(now)?;
        Some(self.state(now, checkpoint, rules_revision))
    }

    pub(crate) fn handover(&mut self, now: Time, rules_revision: RulesRevision) -> Handover {
        let last = Checkpoint { number: CheckpointNumber(u64::MAX), state: self.core.snapshot(now, MAX_PERMITS) };
        Handover { state: self.state(now, last, rules_revision), used: self.core.take_use() }
    }

    fn state(&self, now: Time, checkpoint: Checkpoint, rules_revision: RulesRevision) -> LoopState {
        LoopState::of(checkpoint, self.discovery.snapshot(now), self.core.epoch(), rules_revision)
    }

    /// Sends all waiting requests elsewhere, in slices, between which answers go out and other loops run.
    pub(crate) async fn send_elsewhere(&mut self, now: Time) {
        self.discovery.handle(&mut self.core, now, Event::HandOver);
        while let Some(first) = self.core.poll_command() {
            self.answer(now, first);
            for _ in 1..SLICE {
                let Some(command) = self.core.poll_command() else { break };
                self.answer(now, command);
            }
            self.outbox.publish().await;
            tokio::task::yield_now().await;
        }
    }

    /// Publishes all answers, and gives up on requests of this process whose tasks no longer wait.
    pub(crate) async fn publish(&mut self, now: impl Fn() -> Time) {
        self.outbox.publish().await;
        while let Some(gone) = self.outbox.undelivered.take_own() {
            gone.into_iter().for_each(|waited| self.give_up_on(now(), waited));
            self.outbox.publish().await;
        }
    }

    /// Handles a notice that an answer has reached no client.
    pub(crate) fn take_no_responders(&mut self, now: Time, notice: &async_nats::Message) {
        if let Some(waited) = self.outbox.undelivered.take_no_responders(now, notice) {
            self.give_up_on(now, waited);
        }
    }

    fn give_up_on(&mut self, now: Time, Waited { id, is_grant }: Waited) {
        self.tally.undelivered += 1;
        self.handle(now, Event::Undelivered { id, is_grant });
    }

    /// Takes one step of the walk along requests whose connections may be gone.
    pub(crate) fn probe_on(&mut self, now: Time) {
        let Self { core, outbox, .. } = self;
        if outbox.undelivered.step(|walk, may_be_gone| core.probe(now, walk, may_be_gone)) {
            self.handle(now, Event::Wake);
        }
    }

    /// Takes one step of a purge. Returns how many waits it has ended, and where the walk continues.
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

    /// Returns the status, except for the sources of the limits.
    pub(crate) fn status(&mut self, now: Time, leader: &str) -> Status {
        let classes = self.core.class_status(now);
        let first = classes.iter().find_map(|class| class.first.as_deref());
        let (limited_by, reason, held_by) = match (first, self.core.delay_of_next(now)) {
            (Some(first), _) => (first.limited_by.clone(), first.reason, first.held_by.clone()),
            (None, Some((limit, reason, held_by))) => (Some(self.limit_name(limit)), Some(reason), held_by),
            (None, None) => (None, None, None),
        };
        let mut limits = self.core.limit_status(now);
        self.describe(&mut limits, now);
        Status {
            limits,
            classes,
            resource: self.core.resource().name().clone(),
            epoch: self.core.epoch(),
            leader: leader.to_owned(),
            counters: Counters { refused: self.tally.refusals.total(), ..self.core.counters() },
            limited_by,
            reason,
            held_by,
            provider: None,
            rules: None,
            standbys: None,
            differing: Vec::new(),
            forecasts: Vec::new(),
            corrections: self.core.corrections(),
            unreadable: self.tally.unreadable.last().cloned(),
            notes: Vec::new(),
            limits_toml: None,
            configured_toml: None,
            shares: None,
            since: None,
            recent: None,
        }
    }

    /// Adds what is known outside the core to the status of limits.
    fn describe(&self, limits: &mut [LimitStatus], now: Time) {
        self.key_labels.describe(limits);
        self.discovery.describe(limits, now);
        self.pauses.describe(limits);
        self.costed_units.describe(limits, now);
    }

    /// Returns the use since the last call.
    pub(crate) fn take_use(&mut self) -> Use {
        let used = self.core.take_use();
        self.costed_units.note_use(&used);
        used
    }

    pub(crate) fn shares(&mut self, now: Time) -> Shares {
        self.core.shares(now)
    }

    pub(crate) fn report(&self, now: Time, status: Status) -> Report {
        Report {
            status,
            tally: self.tally.clone(),
            remembered: self.core.remembered(),
            calls_in_flight: self.core.calls_in_flight(now),
            useful_workers: self.core.useful_workers(now),
        }
    }
}
