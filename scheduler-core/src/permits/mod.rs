//! Requests and grants by id, and the answers that are on their way.

mod all_permits;
mod forgettable_permits;
mod pending_answers;
mod permit;
mod told_starts;

pub(crate) use all_permits::Permits;
pub(crate) use pending_answers::{Answer, PendingAnswer, PendingAnswers};
pub(crate) use permit::{Granted, Permit, Stage, State};
pub(crate) use told_starts::{ToldStart, ToldStarts};
