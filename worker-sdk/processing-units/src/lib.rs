//! What a request to Sentinel Hub or the Copernicus Data Space costs, in processing units.
//!
//! From parameters:
//!
//! ```
//! use rampmeter_processing_units::{Api, Correction, Count, Format, Parameters, Rules, Size};
//! # fn main() -> Result<(), rampmeter_processing_units::Error> {
//! let change = Parameters::new(Size::new(1024, 1024)?, Count::new(4)?)
//!     .format(Format::Float32)
//!     .samples(Count::new(2)?)
//!     .correction(Correction::Orthorectified);
//! let estimate = Rules::latest().estimate(Api::Process, &change)?;
//! assert_eq!(estimate.amount().to_string(), "42.666667");
//! # Ok(())
//! # }
//! ```
//!
//! From the body of a request, as it is sent:
//!
//! ```
//! use rampmeter_processing_units::{Api, Count, Estimate, Given};
//! # fn main() -> Result<(), rampmeter_processing_units::Error> {
//! let body = r#"{
//!     "input": {
//!         "bounds": { "bbox": [500000, 5090000, 505120, 5095120], "properties": { "crs": "http://www.opengis.net/def/crs/EPSG/0/32633" } },
//!         "data": [{ "type": "sentinel-2-l2a" }]
//!     },
//!     "output": { "resx": 10, "resy": 10, "responses": [{ "format": { "type": "image/png" } }] }
//! }"#;
//! let estimate = Estimate::of_body(Api::Process, body, &Given::default().bands(Count::new(3)?).samples(Count::ONE))?;
//! assert_eq!(estimate.amount().to_string(), "1");
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `evalscript` bands, samples and formats are read from the evalscript's `setup()`.
//!
//! **Rules are data.** [`Rules::latest`] is what the documentation says today, [`Rules::named`] an earlier
//! version; an [`Estimate`] says which it was made by.
//!
//! **An estimate is never too low** by rounding: products are exact fractions, rounded up once, to a
//! millionth. Where a body leaves something open, it counts as the dearer, with a [note](Estimate::notes);
//! where it cannot be known at all (how many acquisitions `mosaicking: "ORBIT"` finds), there is an [`Error`]
//! that says what to pass in [`Given`].
//!
//! **What is assumed** where the documentation is silent:
//!
//! * Each interval of a statistical request is as many samples as its mosaicking gives, one with `SIMPLE`.
//!   Statistics are JSON, so that their sample type does not matter.
//! * Bands are counted once for each source that they are asked of, and all factors multiply, those of
//!   Sentinel-1 as soon as one source asks for them.
//! * Each entry of `input.data` is a collection of data fusion, also if two have the same type.
//! * A batch request over a tiling grid is charged for as many whole tiles as its bounds could touch.
//!
//! What is charged in the end is in the answer's `X-ProcessingUnits-Spent`.

mod api;
mod body;
mod count;
mod deployment;
mod error;
mod estimate;
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

/// The unit, as costs and limits name it.
pub const UNIT: &str = "processing-units";
