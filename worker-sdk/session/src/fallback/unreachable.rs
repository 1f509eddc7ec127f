//! The caller's choice for the time while no scheduler answers.

use super::safe_rate::SafeRate;
use crate::fallback::patience::Patience;
use rampmeter_protocol::time::Span;

/// What happens to requests while no scheduler of their resource answers.
///
/// A resource is unreachable when a request has waited for an answer for as long as the patience,
/// and no scheduler of the resource has sent an answer or an event meanwhile. The cause does not
/// matter: no server, no scheduler, or silence. A request in a scheduler's queue has been answered;
/// after a silence as long as the patience it is sent again, and waits for another answer.
///
/// Any answer or event ends this state, and the session repeats the waiting requests. It also ends
/// if no request comes for as long as the patience; the next one has to find out again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreachable {
    /// Requests wait for a scheduler, or for their deadline.
    #[default]
    Wait,
    /// Requests fail at once, with a time to come back, at which the client tries again.
    Fail {
        /// The patience before this policy begins.
        after: Patience,
    },
    /// The client itself grants permits in the order of asking. Mode `allow` gets one now or none.
    ///
    /// The first permit comes at a random time within one interval of the rate, because a whole fleet loses
    /// its scheduler at one moment. Schedulers neither know nor charge these permits, and the original
    /// requests are cancelled. Local permits respect deadlines, and freezes that were announced before.
    SafeRate {
        /// The patience before this policy begins.
        after: Patience,
        /// How often the client grants a permit per resource.
        rate: SafeRate,
    },
}

impl Unreachable {
    pub(crate) fn patience(self) -> Option<Span> {
        match self {
            Unreachable::Wait => None,
            Unreachable::Fail { after } | Unreachable::SafeRate { after, .. } => Some(after.span()),
        }
    }
}
