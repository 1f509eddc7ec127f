//! A request for a permit that is not answered yet.

use crate::asks::longest_silence::LongestSilence;
use crate::event::{BatchNumber, ResourceNumber};
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::lateness::OneWayDelay;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::time::{NANOS_PER_MILLI, Span, Time};

#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) resource: ResourceNumber,
    pub(crate) request: Box<PermitRequest<'static>>,
    pub(crate) since: Time,
    pub(crate) deadline: Time,
    pub(crate) limited_by: Option<Box<str>>,
    pub(crate) was_answered: bool,
    /// Whether the caller chose the id, so that the ask must not change it.
    pub(crate) keeps_id: bool,
    stage: Stage,
    longest_silence: LongestSilence,
    /// Since when a scheduler owes an answer about the ask.
    unanswered: Option<Time>,
    last_batch: Option<BatchNumber>,
    /// When the ask was first sent under its current id.
    first_sent: Option<Time>,
    last_sent: Time,
    sendings: u32,
    /// The one-way delay of its last grant, if that came too late.
    pub(crate) late: Option<OneWayDelay>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// In its outbox, not sent yet.
    Unsent,
    /// With the scheduler. It counts as lost if no answer comes until `silent_until`.
    Sent { silent_until: Time },
    /// Refused for now, and sent again at `until`.
    Postponed { until: Time },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Due {
    Deadline,
    /// The silence was too long, or the time to ask again has come.
    AskAgain,
}

impl Ask {
    pub(crate) fn new(
        now: Time,
        resource: ResourceNumber,
        mut request: Box<PermitRequest<'static>>,
        deadline: Time,
        longest_silence: LongestSilence,
    ) -> Self {
        request.progress = request.mode == Mode::Wait;
        Ask {
            resource,
            since: now - request.age_ms.span(),
            request,
            deadline: deadline + longest_silence.grace,
            limited_by: None,
            was_answered: false,
            keeps_id: false,
            stage: Stage::Unsent,
            longest_silence,
            unanswered: Some(now),
            last_batch: None,
            first_sent: None,
            last_sent: now,
            sendings: 0,
            late: None,
        }
    }

    /// Marks the ask as sent and fills in the fields that change with each sending.
    pub(crate) fn send(&mut self, now: Time, batch: BatchNumber, epoch: Option<Epoch>) -> &PermitRequest<'static> {
        self.stage = Stage::Sent { silent_until: now + self.longest_silence.of(self.request.mode, false) };
        self.last_batch = Some(batch);
        self.first_sent.get_or_insert(now);
        self.last_sent = now;
        self.sendings = self.sendings.saturating_add(1);
        self.request.age_ms = whole_millis(now.since(self.since)).into();
        self.request.max_wait_ms = self.max_wait(now);
        self.request.epoch = epoch.or(self.request.epoch);
        &self.request
    }

    /// Returns the original request, without the fields that each sending fills in.
    pub(crate) fn into_request(mut self) -> Box<PermitRequest<'static>> {
        self.request.age_ms = Millis::default();
        self.request.max_wait_ms = None;
        self.request.epoch = None;
        self.request
    }

    pub(crate) fn unsend(&mut self, now: Time) {
        self.stage = Stage::Unsent;
        self.expect_answer(now);
    }

    /// Notes that an answer is owed from now on, if none was already: the scheduler that knew of this ask may be gone.
    pub(crate) fn expect_answer(&mut self, now: Time) {
        self.unanswered.get_or_insert(now);
    }

    pub(crate) fn unanswered(&self) -> Option<Time> {
        self.unanswered
    }

    /// Notes that a scheduler has answered about this ask, and may be silent again for a while.
    pub(crate) fn note_answer(&mut self, now: Time) {
        self.was_answered = true;
        self.unanswered = None;
        if let Stage::Sent { .. } = self.stage {
            let silent_until = now + self.longest_silence.of(self.request.mode, true);
            let overdue = self.deadline - Span::from_nanos(self.longest_silence.grace.nanos() / 2);
            let silent_until = if now < overdue { silent_until.min(overdue) } else { silent_until };
            self.stage = Stage::Sent { silent_until };
        }
    }

    pub(crate) fn postpone(&mut self, until: Time) {
        self.was_answered = true;
        self.unanswered = None;
        self.stage = Stage::Postponed { until };
    }

    pub(crate) fn is_unsent(&self) -> bool {
        self.stage == Stage::Unsent
    }

    /// Returns whether a scheduler may know of this ask.
    pub(crate) fn was_sent(&self) -> bool {
        self.sendings > 0
    }

    /// Returns whether a copy may be on its way to a scheduler that has already answered.
    pub(crate) fn was_sent_again(&self) -> bool {
        self.sendings > 1
    }

    pub(crate) fn id(&self) -> PermitId {
        self.request.id.clone().expect("a pending ask has an id")
    }

    pub(crate) fn rename(&mut self, id: PermitId) {
        self.request.id = Some(id);
        self.first_sent = None;
    }

    /// The earliest time at which the request in `batch` was sent.
    pub(crate) fn asked(&self, batch: BatchNumber) -> Time {
        let last = (self.last_batch == Some(batch)).then_some(self.last_sent);
        last.or(self.first_sent).unwrap_or(Time::ORIGIN)
    }

    /// Returns whether the ask was sent, and may be with a scheduler.
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.stage, Stage::Sent { .. })
    }

    /// Returns whether the ask was sent in `batch` and not again since.
    pub(crate) fn is_sent_in(&self, batch: BatchNumber) -> bool {
        self.last_batch == Some(batch) && self.is_sent()
    }

    pub(crate) fn next_due(&self) -> Time {
        match self.stage {
            Stage::Unsent => self.deadline,
            Stage::Sent { silent_until: then } | Stage::Postponed { until: then } => self.deadline.min(then),
        }
    }

    /// When the ask is due next, after it has been handled now.
    pub(crate) fn next_due_after(&self, now: Time) -> Time {
        let next = self.next_due();
        if next > now { next } else { self.deadline }
    }

    pub(crate) fn due(&self, now: Time) -> Option<Due> {
        if now >= self.deadline {
            return Some(Due::Deadline);
        }
        (now >= self.next_due()).then_some(Due::AskAgain)
    }

    /// The longest wait to tell the scheduler. Mode `allow`, now or never, needs none.
    fn max_wait(&self, now: Time) -> Option<Millis> {
        let bounded = self.deadline < Time::NEVER && self.request.mode != Mode::Allow;
        bounded.then(|| self.deadline.since(now).saturating_sub(self.longest_silence.grace).into())
    }
}

/// Rounds down: an age is a claim to a place in the queue.
fn whole_millis(span: Span) -> Span {
    Span::from_millis(span.nanos() / NANOS_PER_MILLI)
}
