//! The costs of requests to Sentinel Hub and the Copernicus Data Space, in processing units.
//!
//! From parameters:
//!
//! ```
//! use rampmeter_sentinel_hub::{Api, Correction, Count, Format, Parameters, Rules, Size};
//! # fn main() -> Result<(), rampmeter_sentinel_hub::Error> {
//! let change = Parameters {
//!     format: Format::Float32,
//!     samples: Count::new(2)?,
//!     correction: Correction::Orthorectified,
//!     ..Parameters::new(Size::new(1024, 1024)?, Count::new(4)?)
//! };
//! let estimate = Rules::latest().estimate(Api::Process, &change)?;
//! assert_eq!(estimate.amount.to_string(), "42.666667");
//! # Ok(())
//! # }
//! ```
//!
//! From the body of a request:
//!
//! ```
//! use rampmeter_sentinel_hub::{Api, Count, Estimate, Given};
//! # fn main() -> Result<(), rampmeter_sentinel_hub::Error> {
//! let body = r#"{
//!     "input": {
//!         "bounds": { "bbox": [500000, 5090000, 505120, 5095120], "properties": { "crs": "http://www.opengis.net/def/crs/EPSG/0/32633" } },
//!         "data": [{ "type": "sentinel-2-l2a" }]
//!     },
//!     "output": { "resx": 10, "resy": 10, "responses": [{ "format": { "type": "image/png" } }] }
//! }"#;
//! let given = Given { bands: Some(Count::new(3)?), samples: Some(Count::ONE), ..Given::default() };
//! let estimate = Estimate::of_body(Api::Process, body, &given)?;
//! assert_eq!(estimate.amount.to_string(), "1");
//! # Ok(())
//! # }
//! ```
//!
//! Bands, samples and formats are read from a literal in the evalscript's `setup()`, which never runs.
//!
//! **Rules are data.** [`Rules::latest`] follows today's documentation, [`Rules::named`] an earlier
//! version. An [`Estimate`] contains the version that it was made with.
//!
//! **Rounding never makes an estimate too low.** Products are exact fractions, rounded up once, to a millionth. If a
//! body leaves something open, the more expensive case counts, with a [note](Estimate::notes). If something cannot be
//! known, such as the acquisitions that `mosaicking: "ORBIT"` finds, an [`Error`] says what to pass in [`Given`].
//!
//! **Assumptions** where the documentation is silent:
//!
//! * Each interval of a statistical request has as many samples as its mosaicking gives, one for
//!   `SIMPLE`. Statistics are JSON, so their sample type does not matter.
//! * A band counts once for each source that it is read from. An entry of `input` without `datasource` counts
//!   as its own source. All factors multiply, and those of Sentinel-1 apply as soon as one source needs them.
//! * Each entry of `input.data` is a collection of data fusion, even if two have the same type.
//! * A batch request over a tiling grid is charged for the most tiles that its bounds could touch.
//!
//! The actual charge is in the response's `X-ProcessingUnits-Spent`.

mod api;
mod body;
mod count;
mod deployment;
mod error;
mod estimate;
mod evalscript;
mod given;
mod parameters;
mod ratio;
mod rules;

pub use api::Api;
pub use body::MAX_BODY;
pub use count::Count;
pub use deployment::Deployment;
pub use error::{Error, ErrorKind};
pub use estimate::{Estimate, Factor};
pub use given::Given;
pub use parameters::{Correction, Format, Fusion, Parameters, Size};
pub use ratio::Ratio;
pub use rules::Rules;

/// The unit's name in costs and limits.
pub const UNIT: &str = "processing-units";
