//! A constant flow.

use crate::{Amount, Policy};

/// A flow of `capacity` per `period`, without rounding. Volumes are micro-units times nanoseconds
/// of the period. On that scale a nanosecond brings exactly `capacity`, and a product of two `u64`
/// always fits. A policy that never refills has no flow and the scale 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    scale: u64,
    per_ns: u64,
}

impl Flow {
    pub(crate) fn of(policy: &Policy) -> Self {
        match policy.period_ns() {
            0 => Self { scale: 1, per_ns: 0 },
            period_ns => Self { scale: period_ns, per_ns: policy.capacity().micros() },
        }
    }

    pub(crate) fn volume(self, amount: Amount) -> u128 {
        u128::from(amount.micros()) * u128::from(self.scale)
    }

    /// Returns the amount in `volume`, at most the capacity, rounded down to a micro-unit.
    pub(crate) fn amount(self, volume: u128) -> Amount {
        let micros = volume / u128::from(self.scale);
        Amount::from_micros(u64::try_from(micros).expect("no volume is above the capacity's"))
    }

    pub(crate) fn during(self, elapsed_ns: u64) -> u128 {
        u128::from(elapsed_ns) * u128::from(self.per_ns)
    }

    /// Returns how long `volume` takes to flow, rounded up to a nanosecond; `None` without a flow.
    pub(crate) fn time_for_ns(self, volume: u128) -> Option<u128> {
        (self.per_ns > 0).then(|| volume.div_ceil(u128::from(self.per_ns)))
    }
}
