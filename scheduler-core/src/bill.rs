//! What one call takes from each bucket.

use crate::resource::LimitId;
use rampmeter_protocol::amount::Amount;
use smallvec::SmallVec;

/// Amounts in the order of limits, none of them zero: a call waits for no bucket that it takes nothing from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bill(SmallVec<[(LimitId, Amount); 3]>);

impl Bill {
    /// A bill for nothing.
    #[must_use]
    pub fn new() -> Self {
        Bill::default()
    }

    /// Charges `amount` to `limit`, in place of what was charged to it.
    pub fn set(&mut self, limit: LimitId, amount: Amount) {
        match self.0.binary_search_by_key(&limit, |(known, _)| *known) {
            Ok(place) if amount == Amount::ZERO => drop(self.0.remove(place)),
            Ok(place) => self.0[place].1 = amount,
            Err(_) if amount == Amount::ZERO => {}
            Err(place) => self.0.insert(place, (limit, amount)),
        }
    }

    /// What is charged to `limit`.
    #[must_use]
    pub fn get(&self, limit: LimitId) -> Amount {
        self.iter().find(|(known, _)| *known == limit).map_or(Amount::ZERO, |(_, amount)| amount)
    }

    /// How many limits are charged.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the call costs nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The limits that are charged, and how much.
    pub fn iter(&self) -> impl Iterator<Item = (LimitId, Amount)> + Clone {
        self.0.iter().copied()
    }
}
