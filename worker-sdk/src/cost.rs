//! The cost of a call.

use crate::Error;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost as wire;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::text::Text;

/// The cost of one call, by unit; without `requests`, also one request. Amounts are rounded up to six decimals. An
/// invalid cost (an amount below 0, above 1e9 or NaN, an invalid unit name, more than 16 units) can be built, but makes
/// the request fail with [`ErrorKind::InvalidArgument`].
///
/// ```
/// use rampmeter_worker_sdk::Cost;
/// let cost = Cost::requests(1).and("processing-units", 2.5);
/// assert_eq!(cost.to_string(), "1 requests, 2.5 processing-units");
/// assert_eq!(Cost::from(3), Cost::requests(3));
/// ```
///
/// [`ErrorKind::InvalidArgument`]: crate::error::ErrorKind::InvalidArgument
#[derive(Clone, Debug, PartialEq)]
pub struct Cost(Result<wire::Cost<'static>, String>);

impl Cost {
    /// Creates a cost of this number of requests.
    #[must_use]
    pub fn requests(amount: impl Into<f64>) -> Self {
        Cost(with(wire::Cost::new(), Text::from(wire::REQUESTS), amount.into()))
    }

    /// Creates a cost of one unit.
    #[must_use]
    pub fn of(unit: &str, amount: impl Into<f64>) -> Self {
        Cost(Ok(wire::Cost::new())).and(unit, amount)
    }

    /// Adds `amount` of `unit`.
    #[must_use]
    pub fn and(self, unit: &str, amount: impl Into<f64>) -> Self {
        Cost(self.0.and_then(|cost| with(cost, Text::from(unit.to_owned()), amount.into())))
    }

    /// Returns the cost as messages contain it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) if the cost is invalid.
    pub fn into_wire(self) -> Result<wire::Cost<'static>, Error> {
        self.0.map_err(Error::invalid)
    }
}

fn with(mut cost: wire::Cost<'static>, unit: Text<'static>, amount: f64) -> Result<wire::Cost<'static>, String> {
    Name::new(&unit).map_err(|error| format!("cost of {:?}: {error}", &*unit))?;
    let amount = Amount::round_up(amount).map_err(|error| format!("cost of {:?}: {error}", &*unit))?;
    cost.set(unit, amount).map_err(|error| error.to_string())?;
    Ok(cost)
}

impl Default for Cost {
    fn default() -> Self {
        Cost::requests(1)
    }
}

impl From<u32> for Cost {
    /// A number of requests, as in `resource.acquire(1)`.
    fn from(requests: u32) -> Self {
        Cost::requests(requests)
    }
}

impl From<wire::Cost<'static>> for Cost {
    fn from(cost: wire::Cost<'static>) -> Self {
        Cost(Ok(cost))
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Ok(cost) => {
                let amounts: Vec<String> = cost.iter().map(|(unit, amount)| format!("{amount} {unit}")).collect();
                f.write_str(&amounts.join(", "))
            }
            Err(why) => write!(f, "invalid: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn check(cost: Cost, expected: Result<&str, &str>) {
        match (cost.into_wire(), expected) {
            (Ok(wire), Ok(json)) => assert_eq!(serde_json::to_string(&wire).unwrap(), json),
            (Err(error), Err(part)) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                assert!(error.to_string().contains(part), "{error}");
            }
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn costs_are_checked_and_rounded_up() {
        check(Cost::default(), Ok(r#"{"requests":1}"#));
        check(Cost::requests(2).and("pu", 2.5), Ok(r#"{"requests":2,"pu":2.5}"#));
        check(Cost::of("pu", 1.0 / 3.0), Ok(r#"{"pu":0.333334}"#));
        check(Cost::of("pu", 1).and("pu", 2), Ok(r#"{"pu":2}"#));
        check(Cost::of("pu", -1), Err("from 0 to 1e9"));
        check(Cost::of("pu", f64::NAN), Err("from 0 to 1e9"));
        check(Cost::of("processing units", 1), Err("[A-Za-z0-9_-]"));
        check((0..17).fold(Cost::requests(1), |cost, unit| cost.and(&format!("u{unit}"), 1)), Err("at most 16 units"));
    }
}
