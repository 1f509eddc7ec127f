//! The relevant parts of request bodies, in the service's form.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A number, which the service also accepts as text.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Number(#[serde(deserialize_with = "required")] pub(super) f64);

/// A number or a boolean, also as text (`"true"`). An empty text is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lenient<T>(pub(super) Option<T>);

impl<'a, T: DeserializeOwned> Deserialize<'a> for Lenient<T> {
    fn deserialize<D: Deserializer<'a>>(written: D) -> Result<Self, D::Error> {
        let written = Value::deserialize(written)?;
        let text = written.as_str().map(|text| text.trim().to_ascii_lowercase());
        let meant = match text.as_deref() {
            Some("") => Some(Value::Null),
            Some(text) => serde_json::from_str(text).ok(),
            None => None,
        };
        serde_json::from_value(meant.unwrap_or(written)).map(Lenient).map_err(D::Error::custom)
    }
}

fn required<'a, D: Deserializer<'a>>(written: D) -> Result<f64, D::Error> {
    Lenient::deserialize(written)?.0.ok_or_else(|| D::Error::custom("a number is missing"))
}

#[derive(Debug, Deserialize)]
pub(super) struct Process {
    pub(super) input: Input,
    #[serde(default)]
    pub(super) output: Output,
    pub(super) evalscript: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Statistical {
    pub(super) input: Input,
    pub(super) aggregation: Aggregation,
}

/// The body of a batch request. Earlier versions have `tilingGrid`, later ones `input`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Batch {
    pub(super) process_request: Option<Process>,
    pub(super) tiling_grid: Option<Grid>,
    pub(super) input: Option<Grid>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Grid {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) id: Lenient<f64>,
    pub(super) resolution: Lenient<f64>,
    pub(super) buffer_x: Lenient<f64>,
    pub(super) buffer_y: Lenient<f64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    #[serde(default)]
    pub(super) bounds: Bounds,
    pub(super) data: Vec<Data>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Bounds {
    pub(super) bbox: Option<Vec<Number>>,
    pub(super) geometry: Option<Geometry>,
    #[serde(default)]
    pub(super) properties: BoundsProperties,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct BoundsProperties {
    pub(super) crs: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Geometry {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) coordinates: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct Data {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) processing: Processing,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Processing {
    pub(super) orthorectify: Lenient<bool>,
    pub(super) back_coeff: Option<String>,
    pub(super) speckle_filter: Option<SpeckleFilter>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SpeckleFilter {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Output {
    pub(super) width: Lenient<f64>,
    pub(super) height: Lenient<f64>,
    pub(super) resx: Lenient<f64>,
    pub(super) resy: Lenient<f64>,
    pub(super) responses: Vec<Response>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Response {
    pub(super) identifier: Option<String>,
    #[serde(default)]
    pub(super) format: ResponseFormat,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ResponseFormat {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Aggregation {
    pub(super) time_range: Option<TimeRange>,
    pub(super) aggregation_interval: Option<Interval>,
    pub(super) width: Lenient<f64>,
    pub(super) height: Lenient<f64>,
    pub(super) resx: Lenient<f64>,
    pub(super) resy: Lenient<f64>,
    pub(super) evalscript: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TimeRange {
    pub(super) from: String,
    pub(super) to: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interval {
    pub(super) of: String,
    #[serde(default)]
    pub(super) last_interval_behavior: LastInterval,
}

/// What happens to an interval that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum LastInterval {
    #[default]
    Skip,
    Shorten,
    Extend,
}

/// The size of the output: pixels, or the size of one pixel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) width: Option<f64>,
    pub(super) height: Option<f64>,
    pub(super) resx: Option<f64>,
    pub(super) resy: Option<f64>,
}

impl Output {
    pub(super) fn frame(&self) -> Frame {
        Frame { width: self.width.0, height: self.height.0, resx: self.resx.0, resy: self.resy.0 }
    }
}

impl Aggregation {
    pub(super) fn frame(&self) -> Frame {
        Frame { width: self.width.0, height: self.height.0, resx: self.resx.0, resy: self.resy.0 }
    }
}
