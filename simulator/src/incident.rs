//! Incidents that befall a world's scheduler.

use rampmeter_policy::spec::ResourceSpec;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;

/// Duration of a write to the store, and of a succession after a crash.
pub(crate) const WRITE: Span = Span::from_millis(5);
pub(crate) const FAILOVER: Span = Span::from_millis(100);

/// An incident that befalls a world's scheduler.
#[derive(Clone, Debug)]
pub enum Incident {
    /// The scheduler hands over to a successor.
    HandOver,
    /// The scheduler dies. Its successor has the last checkpoint, or that being written. Messages in between are lost.
    Crash,
    /// The scheduler is cut off for this time from the store and half of the workers, for whom another one takes over.
    CutOff(Span),
    /// The store does not respond for this time.
    StoreSilent(Span),
    /// An operator lets an account rest for this time.
    Drain(Name, Span),
    /// An operator changes the limits.
    Limits(Box<ResourceSpec>),
}
