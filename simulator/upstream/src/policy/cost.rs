//! The cost of a call.

use crate::{Amount, Unit};
use std::collections::BTreeMap;

/// The cost of a call by unit: one request by default, and nothing of other units.
///
/// ```
/// use rampmeter_upstream::{Amount, Cost, Unit};
///
/// let cost = Cost::new().with(Unit::PROCESSING_UNITS, Amount::whole(3));
/// assert_eq!(cost.of(&Unit::REQUESTS), Amount::ONE);
/// assert_eq!(cost.of(&Unit::PROCESSING_UNITS), Amount::whole(3));
/// assert_eq!(cost.of(&"tokens".parse()?), Amount::ZERO);
/// # Ok::<(), rampmeter_upstream::UnitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    amounts: BTreeMap<Unit, Amount>,
}

impl Cost {
    /// Creates the cost of one request.
    #[must_use]
    pub fn new() -> Self {
        Self { amounts: BTreeMap::from([(Unit::REQUESTS, Amount::ONE)]) }
    }

    /// Sets the amount of `unit`.
    #[must_use]
    pub fn with(mut self, unit: Unit, amount: Amount) -> Self {
        self.amounts.insert(unit, amount);
        self
    }

    /// Returns what the call takes of `unit`.
    #[must_use]
    pub fn of(&self, unit: &Unit) -> Amount {
        self.amounts.get(unit).copied().unwrap_or_default()
    }

    /// Iterates over all stated amounts and the requests, in the order of the units' names.
    pub fn iter(&self) -> impl Iterator<Item = (&Unit, Amount)> {
        self.amounts.iter().map(|(unit, amount)| (unit, *amount))
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::new()
    }
}
