//! Requests of HTTP clients, and their answers.

use super::token_holder::{Forbidden, TokenHolder};
use rampmeter_protocol::answer::{self, Answer};
use rampmeter_protocol::code::{Code, Remedy};
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::left::Left;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::Span;
use serde::Serialize;
use serde_json::value::RawValue;

/// A request that a scheduler answers, and that may be asked again under the same id.
pub(super) trait Ask: Serialize + Sized {
    /// The same under this id.
    fn with_id(self, id: PermitId) -> Self;

    /// The same in the name of a token's holder.
    ///
    /// # Errors
    /// What the holder may not do.
    fn held_by(self, holder: &TokenHolder) -> Result<Self, Forbidden>;

    /// Its id.
    fn id(&self) -> Option<&PermitId>;

    /// How long it may wait, if that has a bound.
    fn longest_wait(&self) -> Option<Span>;

    /// The same after it has waited so long already.
    fn after(&self, waited: Span) -> Self;

    /// Whether it is charged for. If its client is gone, it has to be given back then.
    fn is_charged(&self) -> bool;
}

impl Ask for PermitRequest<'_> {
    /// A waiting request wants to be told that it waits: silence does not show whether a scheduler
    /// is there.
    fn with_id(self, id: PermitId) -> Self {
        let progress = self.mode == Mode::Wait;
        PermitRequest { id: Some(id), progress, ..self }
    }

    fn held_by(self, holder: &TokenHolder) -> Result<Self, Forbidden> {
        holder.permit(self)
    }

    fn id(&self) -> Option<&PermitId> {
        self.id.as_ref()
    }

    fn longest_wait(&self) -> Option<Span> {
        self.max_wait_ms.map(Millis::span)
    }

    fn after(&self, waited: Span) -> Self {
        let max_wait_ms = self.max_wait_ms.map(|most| Millis::from(most.span().saturating_sub(waited)));
        PermitRequest { max_wait_ms, age_ms: Millis::from(self.age_ms.span() + waited), ..self.clone() }
    }

    fn is_charged(&self) -> bool {
        true
    }
}

impl Ask for Settle<'_> {
    fn with_id(self, id: PermitId) -> Self {
        Settle { id, ..self }
    }

    fn held_by(self, holder: &TokenHolder) -> Result<Self, Forbidden> {
        holder.settle(self)
    }

    fn id(&self) -> Option<&PermitId> {
        Some(&self.id)
    }

    fn longest_wait(&self) -> Option<Span> {
        Some(Span::ZERO)
    }

    fn after(&self, _waited: Span) -> Self {
        self.clone()
    }

    fn is_charged(&self) -> bool {
        false
    }
}

/// The answer to one element, as it came.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answered {
    /// The JSON.
    pub(super) text: String,
    /// What it means.
    pub(super) outcome: Outcome,
}

/// An answer, as far as HTTP is concerned.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The call may start.
    Granted(Granted),
    /// The settle was taken.
    Settled,
    /// The request or the settle was refused.
    Refused(Refused),
}

/// A permit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Granted {
    /// How long until the call may start.
    pub(super) delay: Span,
    /// What is left of its limits, if the client asked.
    pub(super) left: Vec<Left<'static>>,
    /// When the answer was written.
    pub(super) stamp: Stamp,
}

/// When an answer was written, on the clock of its epoch's leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// In whole milliseconds, if the answer has a stamp.
    pub(super) at_ms: Option<u64>,
    pub(super) epoch: Epoch,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused {
    /// Why.
    pub(super) code: Code,
    /// When to come back, if that is of use.
    pub(super) retry_after: Option<Span>,
    /// The limit in the way.
    pub(super) limited_by: Option<String>,
}

/// An answer of a scheduler.
#[derive(Debug, PartialEq)]
pub(super) enum SchedulerAnswer {
    /// The final answer.
    Final(Option<PermitId>, Answered),
    /// The request waits, by an answer with this stamp.
    Queued(Option<PermitId>, Stamp),
    /// This scheduler does not answer any more, and another one will.
    Unavailable,
}

impl SchedulerAnswer {
    /// Reads one answer; nothing if `text` is no answer.
    pub(super) fn read(text: &str) -> Option<SchedulerAnswer> {
        let answer: Answer<'_> = serde_json::from_str(text).ok()?;
        let answered = |outcome| Answered { text: text.to_owned(), outcome };
        Some(match answer {
            Answer::Granted(grant) => {
                let delay = span(grant.delay_ms)?;
                let stamp = Stamp { at_ms: grant.at_ms, epoch: grant.epoch };
                let left = grant.left.into_iter().map(Left::into_owned).collect();
                let granted = Granted { delay, left, stamp };
                SchedulerAnswer::Final(permit_id(&grant.id), answered(Outcome::Granted(granted)))
            }
            Answer::Queued(place) => {
                SchedulerAnswer::Queued(permit_id(&place.id), Stamp { at_ms: place.at_ms, epoch: place.epoch })
            }
            Answer::Refused(refusal) if refusal.code.remedy() == Remedy::Repeat => SchedulerAnswer::Unavailable,
            Answer::Refused(refusal) => {
                let (code, retry_after) = (refusal.code, refusal.retry_after_ms.and_then(span));
                let limited_by = refusal.limited_by.map(|limit| limit.to_string());
                let refused = Refused { code, retry_after, limited_by };
                SchedulerAnswer::Final(refusal.id.and_then(|id| permit_id(&id)), answered(Outcome::Refused(refused)))
            }
            Answer::Settled { id, .. } => SchedulerAnswer::Final(permit_id(&id), answered(Outcome::Settled)),
        })
    }
}

fn permit_id(id: &Text<'_>) -> Option<PermitId> {
    PermitId::new(id).ok()
}

fn span(millis: f64) -> Option<Span> {
    Millis::new(millis).ok().map(Millis::span)
}

/// A refusal of the front's own. No scheduler has answered, so that it has no epoch.
pub(super) fn refuse(id: Option<&PermitId>, code: Code, message: String, retry_after: Option<Span>) -> Answered {
    let (id, retry_after_ms) = (id.map(|id| Text::from(id.as_str())), retry_after.map(Span::millis));
    let answer = Answer::Refused(answer::Refused { id, retry_after_ms, ..answer::Refused::new(code, message) });
    let mut text = Vec::new();
    answer.write(&mut text).expect("answers are plain data");
    let text = String::from_utf8(text).expect("JSON is UTF-8");
    Answered { text, outcome: Outcome::Refused(Refused { code, retry_after, limited_by: None }) }
}

/// The elements of an array, or the single answer; nothing if this is neither.
pub(super) fn scheduler_answers(payload: &[u8]) -> Vec<SchedulerAnswer> {
    let text = std::str::from_utf8(payload).unwrap_or_default();
    match text.starts_with('[') {
        true => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            elements.into_iter().filter_map(|element| SchedulerAnswer::read(element.get())).collect()
        }
        false => SchedulerAnswer::read(text).into_iter().collect(),
    }
}
