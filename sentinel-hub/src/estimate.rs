//! Estimates of costs, with their factors.

use crate::{Api, Error, Ratio, UNIT};
use rampmeter_protocol::amount::Amount;
use serde::Serialize;

/// The cost of a request and its factors.
///
/// ```
/// use rampmeter_sentinel_hub::{Api, Count, Parameters, Rules, Size};
/// # fn main() -> Result<(), rampmeter_sentinel_hub::Error> {
/// let parcel = Parameters::new(Size::new(20, 20)?, Count::new(2)?);
/// let estimate = Rules::latest().estimate(Api::Process, &parcel)?;
/// assert_eq!(estimate.exact.to_string(), "0.0066667");
/// assert_eq!(estimate.amount.to_string(), "0.006667");
/// assert_eq!(estimate.factors[0].name, "area");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Estimate {
    /// The API that the request goes to.
    pub api: &'static str,
    /// The version of the rules.
    pub rules: &'static str,
    /// The cost, rounded up to a millionth.
    #[serde(rename = "processing_units")]
    pub amount: Amount,
    /// The cost before rounding.
    pub exact: Ratio,
    /// The least that the API charges.
    pub minimum: Ratio,
    /// The factors, whose product is the cost.
    pub factors: Vec<Factor>,
    /// Assumptions where the body leaves something open.
    pub notes: Vec<String>,
}

/// One factor of a cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Factor {
    /// What is charged for.
    pub name: &'static str,
    /// The factor.
    pub value: Ratio,
    /// The reason for the value.
    pub why: String,
}

impl Factor {
    pub(crate) fn new(name: &'static str, value: Ratio, why: String) -> Self {
        Factor { name, value, why }
    }
}

impl Estimate {
    pub(crate) fn new(rules: &'static str, api: Api, minimum: Ratio, factors: Vec<Factor>) -> Result<Self, Error> {
        let product = factors.iter().try_fold(Ratio::ONE, |product, factor| product.times(factor.value))?;
        let exact = product.max(minimum)?;
        let amount = exact.amount()?;
        Ok(Estimate { api: api.as_str(), rules, amount, exact, minimum, factors, notes: Vec::new() })
    }

    pub(crate) fn with_notes(self, notes: Vec<String>) -> Self {
        Estimate { notes, ..self }
    }

    /// Returns a call's cost, one request and these processing units, as in `hub.run(estimate.cost(), || send(&body))`.
    #[must_use]
    pub fn cost(&self) -> rampmeter_protocol::cost::Cost<'static> {
        let mut cost = rampmeter_protocol::cost::Cost::new();
        for (unit, amount) in [(rampmeter_protocol::cost::REQUESTS, Amount::ONE), (UNIT, self.amount)] {
            cost.set(unit, amount).expect("two units are not too many");
        }
        cost
    }
}
