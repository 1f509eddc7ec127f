//! How long a client tolerates silence.

use rampmeter_protocol::time::Span;
use std::time::Duration;

/// Shortest patience. A hand-over takes tens of milliseconds, so a shorter silence means nothing.
const LEAST: Duration = Duration::from_millis(100);
/// Longest patience, beyond which a client may as well wait.
const MOST: Duration = Duration::from_secs(3600);

/// How long schedulers may be silent before a client acts on its own, by default two seconds.
///
/// ```
/// use rampmeter_worker_session::Patience;
/// use std::time::Duration;
///
/// assert_eq!(Patience::default(), Patience::new(Duration::from_secs(2)).unwrap());
/// let error = Patience::new(Duration::ZERO).unwrap_err();
/// assert_eq!(error.to_string(), "patience is from 100ms to 3600s, not 0ns");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience(Span);

/// The time is not a valid [`Patience`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("patience is from {LEAST:?} to {MOST:?}, not {0:?}")]
pub struct PatienceError(Duration);

impl Patience {
    /// Checks `after`.
    ///
    /// # Errors
    /// If it is shorter than 100 ms or longer than an hour.
    pub fn new(after: Duration) -> Result<Self, PatienceError> {
        let fits = (LEAST..=MOST).contains(&after);
        if fits { Ok(Patience(after.into())) } else { Err(PatienceError(after)) }
    }

    pub(crate) fn span(self) -> Span {
        self.0
    }
}

impl Default for Patience {
    fn default() -> Self {
        Patience(Span::from_secs(2))
    }
}
