//! Times relative to another time, as stored records hold them.

use rampmeter_protocol::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// The time from one instant to another, negative if the other is earlier. The largest offset
/// stands for the end of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Offset(i64);

impl Offset {
    /// No offset.
    pub const ZERO: Offset = Offset(0);

    /// Creates an offset of nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Offset(nanos)
    }

    /// Returns the offset in nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Returns how far `time` lies after `now`.
    pub(crate) fn between(now: Time, time: Time) -> Self {
        let ahead = i64::try_from(time.since(now).nanos()).unwrap_or(i64::MAX);
        let behind = i64::try_from(now.since(time).nanos()).unwrap_or(i64::MAX);
        Offset(ahead - behind)
    }

    pub(crate) fn after(self, time: Time) -> Time {
        let span = Span::from_nanos(self.0.unsigned_abs());
        match self.0 {
            i64::MAX => Time::NEVER,
            0.. => time + span,
            _ => time - span,
        }
    }

    /// Adds `nanos`, unless this is the offset of the end of time.
    pub(crate) fn later_by(self, nanos: i64) -> Self {
        if self.0 == i64::MAX { self } else { Offset(self.0.saturating_add(nanos)) }
    }
}
