//! The virtual time of start-time fair queueing (Goyal, Vin and Cheng, 1997).

use rampmeter_protocol::time::Span;

/// How much service a client has had, in nanoseconds of the resource at a weight of one.
///
/// It begins anew whenever the queue is empty. If that does not happen for centuries, it
/// saturates, and the order of arrival is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VirtualTime(u64);

impl VirtualTime {
    pub(crate) const MAX: VirtualTime = VirtualTime(u64::MAX);

    pub(crate) fn since(self, earlier: VirtualTime) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }

    #[must_use]
    pub(crate) fn after(self, service: Span) -> Self {
        VirtualTime(self.0.saturating_add(service.nanos()))
    }
}
