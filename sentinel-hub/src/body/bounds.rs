//! The area of a request.

use super::wire::{Bounds, Geometry};
use crate::error::Gap;
use crate::{Error, ErrorKind};
use serde_json::Value;

/// The service's CRS for a body that states none.
const DEFAULT_CRS: &str = "http://www.opengis.net/def/crs/OGC/1.3/CRS84";

#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) width: f64,
    pub(super) height: f64,
    /// The lowest and highest latitude or northing.
    pub(super) vertical: (f64, f64),
}

/// The units of a CRS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crs {
    /// Longitude and latitude.
    Degrees,
    /// Metres that grow with the latitude.
    WebMercator,
    /// Metres.
    Utm,
}

/// Returns the box of the bounds at `path`: the bbox, or else the geometry's.
pub(super) fn extent(bounds: &Bounds, path: &str) -> Result<Extent, Error> {
    match (&bounds.bbox, &bounds.geometry) {
        (Some(bbox), _) => of_bbox(&bbox.iter().map(|number| number.0).collect::<Vec<_>>())
            .map_err(|error| error.at(format!("{path}.bbox"))),
        (None, Some(geometry)) => of_geometry(geometry, &format!("{path}.geometry")),
        (None, None) => {
            let gap = Gap::PIXELS.or("give `bbox` or `geometry`");
            Err(Error::gap(ErrorKind::Missing, "there are no bounds for the resolution", gap).at(path))
        }
    }
}

fn of_bbox(bbox: &[f64]) -> Result<Extent, Error> {
    let [west, south, east, north] = bbox else {
        let problem = format!("a bbox has 4 numbers, not {}", bbox.len());
        return Err(Error::new(ErrorKind::Malformed, problem, "give west, south, east and north"));
    };
    let extent = Extent { width: east - west, height: north - south, vertical: (*south, *north) };
    let positive = extent.width > 0.0 && extent.height > 0.0;
    if positive && extent.width.is_finite() && extent.height.is_finite() {
        return Ok(extent);
    }
    let problem = format!("the bounds measure {} × {}", extent.width, extent.height);
    Err(Error::new(ErrorKind::OutOfBounds, problem, "give west < east and south < north"))
}

fn of_geometry(geometry: &Geometry, path: &str) -> Result<Extent, Error> {
    let levels = match geometry.kind.as_str() {
        "Polygon" => 2,
        "MultiPolygon" => 3,
        other => {
            let problem = format!("`{other}` is no geometry that the service takes");
            return Err(
                Error::new(ErrorKind::Malformed, problem, "give a Polygon or MultiPolygon").at(format!("{path}.type"))
            );
        }
    };
    let path = format!("{path}.coordinates");
    let mut bbox = [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
    for position in positions(&geometry.coordinates, levels).map_err(|error| error.at(path.as_str()))? {
        for (axis, value) in position.into_iter().enumerate() {
            bbox[axis] = bbox[axis].min(value);
            bbox[axis + 2] = bbox[axis + 2].max(value);
        }
    }
    of_bbox(&bbox).map_err(|error| error.at(path))
}

/// Returns the positions in arrays nested `levels` deep.
fn positions(coordinates: &Value, levels: usize) -> Result<Vec<[f64; 2]>, Error> {
    let mut open = vec![coordinates];
    for _ in 0..levels {
        let mut inner = Vec::new();
        for value in open {
            inner.extend(value.as_array().ok_or_else(no_geometry)?);
        }
        open = inner;
    }
    open.into_iter().map(|value| position(value).ok_or_else(no_geometry)).collect()
}

fn position(value: &Value) -> Option<[f64; 2]> {
    let numbers = value.as_array()?;
    Some([numbers.first()?.as_f64()?, numbers.get(1)?.as_f64()?])
}

fn no_geometry() -> Error {
    Error::new(
        ErrorKind::Malformed,
        "these are no positions of its type",
        "give arrays of [x, y], nested as GeoJSON has them",
    )
}

pub(super) fn crs(bounds: &Bounds, path: &str) -> Result<Crs, Error> {
    let name = bounds.properties.crs.as_deref().unwrap_or(DEFAULT_CRS);
    let code = name.rsplit(['/', ':']).next().unwrap_or_default();
    let zone = code.strip_prefix("326").or_else(|| code.strip_prefix("327")).and_then(|zone| zone.parse().ok());
    match (code, zone) {
        ("CRS84" | "4326", _) => Ok(Crs::Degrees),
        ("3857", _) => Ok(Crs::WebMercator),
        (_, Some(1..=60_u8)) if code.len() == 5 => Ok(Crs::Utm),
        _ => {
            let problem = format!("`{name}` is no CRS that is known here (CRS84, EPSG:4326, 3857, 326xx, 327xx)");
            Err(Error::unknowable(problem, Gap::TILES).at(format!("{path}.properties.crs")))
        }
    }
}
