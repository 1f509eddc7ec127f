//! One wish for a permit that is not fulfilled yet.

use super::vocabulary::{BatchNumber, ResourceNumber};
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::time::{NANOS_PER_MILLI, Span, Time};

/// A scheduler that lives speaks of a waiting request every 5 s; two of those may be lost.
const SILENCE_WAITING: Span = Span::from_secs(12);
/// Modes `allow` and `reserve` are answered at once.
const SILENCE_AT_ONCE: Span = Span::from_secs(2);

/// A pending ask.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) resource: ResourceNumber,
    pub(super) request: Box<PermitRequest<'static>>,
    pub(super) asked: Time,
    pub(super) deadline: Time,
    pub(super) limited_by: Option<Box<str>>,
    pub(super) heard: bool,
    stage: Stage,
    last_batch: Option<BatchNumber>,
    sendings: u32,
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
        asked: Time,
        resource: ResourceNumber,
        mut request: Box<PermitRequest<'static>>,
        deadline: Time,
    ) -> Self {
        request.progress = request.mode == Mode::Wait;
        Ask {
            resource,
            request,
            asked,
            deadline,
            limited_by: None,
            heard: false,
            stage: Stage::Unsent,
            last_batch: None,
            sendings: 0,
        }
    }

    /// Writes the fields that change from one sending to the next.
    pub(super) fn send(&mut self, now: Time, batch: BatchNumber, epoch: Option<u64>) -> &PermitRequest<'static> {
        self.stage = Stage::Sent { silent_until: now + self.patience() };
        self.last_batch = Some(batch);
        self.sendings = self.sendings.saturating_add(1);
        self.request.age_ms = whole_millis(now.since(self.asked)).into();
        self.request.max_wait_ms = self.max_wait(now);
        self.request.epoch = epoch;
        &self.request
    }

    pub(super) fn unsend(&mut self) {
        self.stage = Stage::Unsent;
    }

    /// The scheduler has spoken of this request; it may be silent for another while.
    pub(super) fn hear(&mut self, now: Time) {
        self.heard = true;
        if let Stage::Sent { .. } = self.stage {
            self.stage = Stage::Sent { silent_until: now + self.patience() };
        }
    }

    pub(super) fn postpone(&mut self, until: Time) {
        self.heard = true;
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

    /// Whether it travelled in `batch` and was not sent since.
    pub(super) fn is_out_with(&self, batch: BatchNumber) -> bool {
        self.last_batch == Some(batch) && matches!(self.stage, Stage::Sent { .. })
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

    fn patience(&self) -> Span {
        if self.request.mode == Mode::Wait { SILENCE_WAITING } else { SILENCE_AT_ONCE }
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
