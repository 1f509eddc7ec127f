//! What is done while nobody answers.

use super::patience::Patience;
use super::safe_rate::SafeRate;
use rampmeter_protocol::time::Span;

/// What becomes of those who ask while no scheduler of their resource answers.
///
/// Nobody answers if a request has been waiting for a word for as long as the patience, and nothing at
/// all was heard of the resource's schedulers meanwhile, neither an answer nor an event. Why does not
/// matter: there is no server, nobody behind it, or only silence. A request that waits in a scheduler's queue has
/// had its word; after a silence as long as the patience it is sent again, and waits for another one.
///
/// One word, whatever it says, ends it, and those who still wait are asked for again. So does a
/// time as long as the patience in which nobody asks: the next one has to find out anew.
///
/// ```
/// use rampmeter_worker_session::{Patience, SafeRate, Unreachable};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), rampmeter_worker_session::SafeRateError> {
/// let rate = SafeRate::new(6, Duration::from_secs(60))?;
/// let policy = Unreachable::SafeRate { after: Patience::default(), rate };
/// assert_ne!(policy, Unreachable::default());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreachable {
    /// They wait until somebody answers, or until their deadline.
    #[default]
    Wait,
    /// They are told at once, with a time to come back at which it is tried in earnest again.
    Fail {
        /// How long they wait for that.
        after: Patience,
    },
    /// The client grants permits itself, in the order of asking; mode `allow` gets one now or none.
    ///
    /// The first comes at a time by chance within one interval of the rate: a fleet loses its scheduler in
    /// one moment. No scheduler hears of these permits, so that they are not charged; what was
    /// asked for is given back. They respect deadlines, and freezes that were announced before.
    SafeRate {
        /// How long they wait for that.
        after: Patience,
        /// How often the client grants one, per resource.
        rate: SafeRate,
    },
}

impl Unreachable {
    pub(super) fn patience(self) -> Option<Span> {
        match self {
            Unreachable::Wait => None,
            Unreachable::Fail { after } | Unreachable::SafeRate { after, .. } => Some(after.span()),
        }
    }
}
