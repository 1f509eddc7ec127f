//! The weight of a client in fair sharing.

use rampmeter_protocol::time::Span;

/// A client's weight in thousandths; a client of weight 2 gets twice the share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(u32);

impl Weight {
    /// The weight of clients that the configuration does not name.
    pub const ONE: Weight = Weight(1000);

    /// The virtual time that this service takes for a client of this weight: `service` ÷ weight,
    /// rounded up.
    pub(crate) fn weighted(self, service: Span) -> Span {
        let weighted = (u128::from(service.nanos()) * u128::from(Weight::ONE.0)).div_ceil(u128::from(self.0));
        Span::from_nanos(u64::try_from(weighted).unwrap_or(u64::MAX))
    }

    /// The weight as a factor.
    #[must_use]
    pub fn times(self) -> f64 {
        f64::from(self.0) / 1e3
    }

    /// The nearest weight; none outside of 0.001 to a million.
    #[must_use]
    pub fn new(times: f64) -> Option<Self> {
        (0.001..=1e6).contains(&times).then(|| Weight((times * 1e3).round() as u32))
    }
}
