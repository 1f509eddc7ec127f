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

/// How many times another's share a client gets, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(u32);

impl Weight {
    /// The weight of a client that the configuration does not name.
    pub const ONE: Weight = Weight(1000);

    /// What this much service counts for a client of this weight.
    pub(crate) fn weighted(self, service: Span) -> Span {
        let weighted = (u128::from(service.nanos()) * u128::from(Weight::ONE.0)).div_ceil(u128::from(self.0));
        Span::from_nanos(u64::try_from(weighted).unwrap_or(u64::MAX))
    }

    /// How many times another's share it is.
    #[must_use]
    pub fn times(self) -> f64 {
        f64::from(self.0) / 1e3
    }

    /// The nearest weight, from a thousandth to a million.
    #[must_use]
    pub fn new(times: f64) -> Option<Self> {
        (0.001..=1e6).contains(&times).then(|| Weight((times * 1e3).round() as u32))
    }
}
