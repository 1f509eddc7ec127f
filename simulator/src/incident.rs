//! What happens to the scheduler of a world.

use rampmeter_policy::spec::ResourceSpec;
use rampmeter_protocol::time::Span;

/// How long a write to the store takes, and how long a successor takes after a crash.
pub(crate) const WRITE: Span = Span::from_millis(5);
pub(crate) const FAILOVER: Span = Span::from_millis(100);

/// What happens to the scheduler of a world.
#[derive(Clone, Debug)]
pub enum Incident {
    /// The scheduler hands over to another one.
    HandOver,
    /// The scheduler dies. Its successor goes on from the last checkpoint, or from the one that was
    /// being written. Messages that arrive between the two are lost.
    Crash,
    /// The scheduler is cut off from the store and from every other worker, and another one takes
    /// over for these. Both go on until the time has passed.
    CutOff(Span),
    /// The store does not answer for this time.
    StoreSilent(Span),
    /// People change the limits.
    Limits(Box<ResourceSpec>),
}
