//! The time of start-time fair queueing (Goyal, Vin and Cheng, 1997).

use rampmeter_protocol::time::Span;

/// How much service a client has had, in nanoseconds of the resource for a weight of one. It begins anew whenever nobody
/// waits; where it has not for centuries, all that is left is the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VirtualTime(u64);

impl VirtualTime {
    /// Behind everything.
    pub(crate) const MAX: VirtualTime = VirtualTime(u64::MAX);

    /// How much service lies between.
    pub(crate) fn since(self, earlier: VirtualTime) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This much service later.
    #[must_use]
    pub(crate) fn after(self, service: Span) -> Self {
        VirtualTime(self.0.saturating_add(service.nanos()))
    }
}
