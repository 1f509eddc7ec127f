//! What a call to Sentinel Hub costs.

use crate::Cost;
use crate::processing_units::{Api, Error, Estimate, Given, UNIT};

impl Cost {
    /// One request, and the processing units of a request to Sentinel Hub with this body.
    ///
    /// What a body does not tell is passed to [`Estimate::of_body`], whose answer is a cost as well.
    ///
    /// ```
    /// use rampmeter_worker_sdk::Cost;
    /// use rampmeter_worker_sdk::processing_units::{Api, Count, Estimate, Format, Given};
    /// # fn main() -> Result<(), rampmeter_worker_sdk::processing_units::Error> {
    /// let body = r#"{
    ///     "input": { "data": [{ "type": "sentinel-1-grd", "processing": { "orthorectify": true } }] },
    ///     "output": { "width": 2000, "height": 2000, "responses": [{ "format": { "type": "image/tiff" } }] },
    ///     "evalscript": "//VERSION=3\nfunction setup() { return { input: ['VV', 'VH'], output: { bands: 2, sampleType: 'UINT16' } } }"
    /// }"#;
    /// # #[cfg(feature = "evalscript")]
    /// assert_eq!(Cost::of_body(Api::Process, body)?.to_string(), "1 requests, 20.345053 processing-units");
    ///
    /// let given = Given::default().bands(Count::new(2)?).samples(Count::new(3)?).format(Format::Integer);
    /// let cost = Cost::from(Estimate::of_body(Api::Process, body, &given)?);
    /// assert_eq!(cost.to_string(), "1 requests, 61.035157 processing-units");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the body is wrong or does not tell: where, why, and what to pass.
    pub fn of_body(api: Api, body: impl AsRef<[u8]>) -> Result<Self, Error> {
        Estimate::of_body(api, body, &Given::default()).map(Cost::from)
    }
}

impl From<Estimate> for Cost {
    /// One request, and the estimated processing units: `resource.acquire(estimate)`.
    fn from(estimate: Estimate) -> Self {
        Cost::requests(1).and(UNIT, estimate.amount().units())
    }
}
