//! The cost of one call.

use crate::amount::Amount;
use crate::bounds::{MAX_NAME, MAX_UNITS};
use crate::object::pairs;
use crate::text::Text;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The unit of which a call costs one unless its cost says otherwise.
pub const REQUESTS: &str = "requests";

/// Amounts by unit: at most 16 units, each at most once.
///
/// ```
/// use rampmeter_protocol::{amount::Amount, cost::Cost};
/// let cost: Cost = serde_json::from_str(r#"{"processing-units": 2.5}"#).unwrap();
/// assert_eq!(cost.get("processing-units"), Some(Amount::new(2.5).unwrap()));
/// assert_eq!(cost.get("requests"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cost<'a>(Vec<(Text<'a>, Amount)>);

/// A cost with more than 16 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cost has at most {MAX_UNITS} units")]
pub struct TooManyUnits;

impl<'a> Cost<'a> {
    /// Creates an empty cost, which means one request.
    #[must_use]
    pub const fn new() -> Self {
        Cost(Vec::new())
    }

    /// Sets the amount of `unit`.
    ///
    /// # Errors
    /// If this would be the 17th unit.
    pub fn set(&mut self, unit: impl Into<Text<'a>>, amount: Amount) -> Result<(), TooManyUnits> {
        let unit = unit.into();
        if let Some(known) = self.0.iter_mut().find(|(known, _)| *known == unit) {
            known.1 = amount;
            return Ok(());
        }
        if self.0.len() == MAX_UNITS {
            return Err(TooManyUnits);
        }
        self.0.push((unit, amount));
        Ok(())
    }

    /// Returns the amount of `unit`, if the cost contains it.
    #[must_use]
    pub fn get(&self, unit: &str) -> Option<Amount> {
        self.iter().find(|(known, _)| *known == unit).map(|(_, amount)| amount)
    }

    /// Iterates over the units and their amounts, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Amount)> + Clone {
        self.0.iter().map(|(unit, amount)| (&**unit, *amount))
    }

    /// Returns whether the cost contains no unit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Copies what the cost borrows from its message.
    #[must_use]
    pub fn into_owned(self) -> Cost<'static> {
        Cost(self.0.into_iter().map(|(unit, amount)| (unit.into_owned(), amount)).collect())
    }
}

impl Serialize for Cost<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Cost<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        pairs(deserializer, "an object of amounts by unit", MAX_UNITS, |unit: &Text, _| known_length(unit)).map(Cost)
    }
}

fn known_length(unit: &str) -> Result<(), String> {
    if (1..=MAX_NAME).contains(&unit.len()) {
        return Ok(());
    }
    Err(format!("a unit's name has 1 to {MAX_NAME} characters"))
}
