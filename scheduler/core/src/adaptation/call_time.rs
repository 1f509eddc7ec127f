//! How long calls in flight take, to estimate when a place will be free.
//!
//! The mean is over the calls of one limit, and the latest count most. `recent_calls.rs` has the
//! slower mean over all served calls.

use rampmeter_protocol::time::Span;

/// The weight of the latest call in the mean is one part in this many.
const LATEST_PART: u64 = 8;

/// The mean time from start to settle of recent calls. It is not handed over to a successor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallTime(Option<Span>);

impl CallTime {
    /// Notes that a call has ended after `taken`.
    pub(crate) fn note(&mut self, taken: Span) {
        let mean = self.0.unwrap_or(taken);
        let part = |span: Span| span.nanos() / LATEST_PART;
        self.0 = Some(Span::from_nanos(mean.nanos() - part(mean) + part(taken)));
    }

    /// The mean; none before the first call has ended.
    pub(crate) fn mean(self) -> Option<Span> {
        self.0
    }
}
