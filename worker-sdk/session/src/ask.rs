//! One request for a permit that is not answered yet.

use super::silence::Silence;
use super::vocabulary::{BatchNumber, ResourceNumber};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::lateness::OneWayDelay;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::time::{NANOS_PER_MILLI, Span, Time};

/// A pending ask.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) resource: ResourceNumber,
    pub(super) request: Box<PermitRequest<'static>>,
    /// Since when it is wanted.
    pub(super) since: Time,
    pub(super) deadline: Time,
    pub(super) limited_by: Option<Box<str>>,
    pub(super) heard: bool,
    stage: Stage,
    /// How long nothing may be heard of it.
    patience: Span,
    /// Since when a scheduler owes a word about it.
    unanswered: Option<Time>,
    last_batch: Option<BatchNumber>,
    /// When it was first sent under its present id, and when last.
    first_sent: Option<Time>,
    last_sent: Time,
    sendings: u32,
    /// How long its last permit was on its way, if that was late.
    pub(super) late: Option<OneWayDelay>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// In its lane's line of what is to be sent.
    Unsent,
    /// With the scheduler, or lost if nothing is heard until then.
    Sent { silent_until: Time },
    /// Refused for now; to be sent again then.
    Postponed { until: Time },
}

/// Why an ask wants attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Due {
    /// Its time is up.
    Deadline,
    /// Silence has lasted too long, or the time to come back is there.
    AskAgain,
}

impl Ask {
    pub(super) fn new(
        now: Time,
        resource: ResourceNumber,
        mut request: Box<PermitRequest<'static>>,
        deadline: Time,
        silence: Silence,
    ) -> Self {
        request.progress = request.mode == Mode::Wait;
        let patience = silence.longest(request.mode);
        Ask {
            resource,
            since: now - request.age_ms.span(),
            request,
            deadline,
            limited_by: None,
            heard: false,
            stage: Stage::Unsent,
            patience,
            unanswered: Some(now),
            last_batch: None,
            first_sent: None,
            last_sent: now,
            sendings: 0,
            late: None,
        }
    }

    /// Writes the fields that change from one sending to the next.
    pub(super) fn send(&mut self, now: Time, batch: BatchNumber, epoch: Option<u64>) -> &PermitRequest<'static> {
        self.stage = Stage::Sent { silent_until: now + self.patience };
        self.last_batch = Some(batch);
        self.first_sent.get_or_insert(now);
        self.last_sent = now;
        self.sendings = self.sendings.saturating_add(1);
        self.request.age_ms = whole_millis(now.since(self.since)).into();
        self.request.max_wait_ms = self.max_wait(now);
        self.request.epoch = epoch;
        &self.request
    }

    /// What is asked for, without what one sending of it said.
    pub(super) fn into_request(mut self) -> Box<PermitRequest<'static>> {
        self.request.age_ms = Millis::default();
        self.request.max_wait_ms = None;
        self.request.epoch = None;
        self.request
    }

    pub(super) fn unsend(&mut self, now: Time) {
        self.stage = Stage::Unsent;
        self.doubt(now);
    }

    /// A word is owed from now on, if none was owed already: who knew of this may be gone.
    pub(super) fn doubt(&mut self, now: Time) {
        self.unanswered.get_or_insert(now);
    }

    /// Since when a scheduler owes a word about it.
    pub(super) fn unanswered(&self) -> Option<Time> {
        self.unanswered
    }

    /// The scheduler has spoken of this request; it may be silent for another while.
    pub(super) fn hear(&mut self, now: Time) {
        self.heard = true;
        self.unanswered = None;
        if let Stage::Sent { .. } = self.stage {
            self.stage = Stage::Sent { silent_until: now + self.patience };
        }
    }

    pub(super) fn postpone(&mut self, until: Time) {
        self.heard = true;
        self.unanswered = None;
        self.stage = Stage::Postponed { until };
    }

    pub(super) fn is_unsent(&self) -> bool {
        self.stage == Stage::Unsent
    }

    /// Whether a scheduler may know of it.
    pub(super) fn was_sent(&self) -> bool {
        self.sendings > 0
    }

    /// Whether a copy of it may be on its way to a scheduler that has answered already.
    pub(super) fn was_sent_again(&self) -> bool {
        self.sendings > 1
    }

    /// It is asked for under another id from now on.
    pub(super) fn rename(&mut self, id: PermitId) {
        self.request.id = Some(id);
        self.first_sent = None;
    }

    /// When what `batch` answers was sent, as late as that is certain: answers to earlier sendings come under their own numbers.
    pub(super) fn asked(&self, batch: BatchNumber) -> Time {
        let last = (self.last_batch == Some(batch)).then_some(self.last_sent);
        last.or(self.first_sent).unwrap_or(Time::ORIGIN)
    }

    /// Whether it was sent, and may be with a scheduler.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.stage, Stage::Sent { .. })
    }

    /// Whether it travelled in `batch` and was not sent since.
    pub(super) fn is_out_with(&self, batch: BatchNumber) -> bool {
        self.last_batch == Some(batch) && self.is_out()
    }

    /// When it wants attention next.
    pub(super) fn next_due(&self) -> Time {
        match self.stage {
            Stage::Unsent => self.deadline,
            Stage::Sent { silent_until: then } | Stage::Postponed { until: then } => self.deadline.min(then),
        }
    }

    /// The same once it has had the attention that it wants now.
    pub(super) fn next_due_after(&self, now: Time) -> Time {
        let next = self.next_due();
        if next > now { next } else { self.deadline }
    }

    /// What it wants attention for.
    pub(super) fn due(&self, now: Time) -> Option<Due> {
        if now >= self.deadline {
            return Some(Due::Deadline);
        }
        (now >= self.next_due()).then_some(Due::AskAgain)
    }

    /// Mode `allow` starts now or never, which needs no bound.
    fn max_wait(&self, now: Time) -> Option<Millis> {
        let bounded = self.deadline < Time::NEVER && self.request.mode != Mode::Allow;
        bounded.then(|| self.deadline.since(now).into())
    }
}

/// Rounded down: an age is a place in line.
fn whole_millis(span: Span) -> Span {
    Span::from_millis(span.nanos() / NANOS_PER_MILLI)
}
