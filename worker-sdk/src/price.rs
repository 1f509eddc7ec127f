//! Prices, which requests contain in place of costs.

use crate::Error;
use rampmeter_protocol::price as wire;

/// A request to the upstream, from which the scheduler computes the cost, if the resource is configured for that, as by
/// `pricing = "sentinel-hub"`. An invalid price can be built, but makes the request for a permit fail with
/// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument).
///
/// ```no_run
/// # async fn example(hub: rampmeter_worker_sdk::Resource) -> Result<(), rampmeter_worker_sdk::Error> {
/// use rampmeter_worker_sdk::call::Price;
/// let body = r#"{"input": {}, "output": {}, "evalscript": "…"}"#;
/// let price = Price::of("sentinel-hub", "process", body).given(r#"{"samples": 3}"#);
/// let permit = hub.acquire(1).price(price).await?;
/// println!("the call costs {}", permit.cost());
/// # drop(permit.begin());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Price(Result<wire::Price<'static>, String>);

impl Price {
    /// Creates the price of the request `body` to the upstream's `api`, by the rules of `kind`.
    #[must_use]
    pub fn of(kind: &str, api: &str, body: &str) -> Self {
        Price(wire::Price::new(kind, api, body).map_err(|error| format!("the body of a price is JSON: {error}")))
    }

    /// Sets facts that the body does not contain, as a JSON object such as `{"samples": 3}`.
    #[must_use]
    pub fn given(self, given: &str) -> Self {
        let with = |price: wire::Price<'static>| price.given(given);
        Price(self.0.and_then(|price| with(price).map_err(|error| format!("what is given is JSON: {error}"))))
    }

    pub(crate) fn into_wire(self) -> Result<Box<wire::Price<'static>>, Error> {
        self.0.map(Box::new).map_err(Error::invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(price: Price) -> String {
        price.into_wire().unwrap_err().to_string()
    }

    #[test]
    fn a_price_is_json() {
        let price = Price::of("sentinel-hub", "process", r#"{"a": 1}"#).given("{}");
        assert_eq!(price.into_wire().unwrap().body.get(), r#"{"a": 1}"#);
        assert!(refusal(Price::of("sentinel-hub", "process", "{")).contains("the body of a price is JSON"));
        assert!(
            refusal(Price::of("sentinel-hub", "process", "{}").given("3 samples")).contains("what is given is JSON")
        );
    }
}
