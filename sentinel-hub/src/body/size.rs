//! The number of pixels.

use super::bounds::{self, Extent};
use super::wire::{Bounds, Frame};
use crate::error::Gap;
use crate::{Count, Error, ErrorKind, Size};

/// The service's width and height for a body without pixels and resolution.
const DEFAULT_SIDE: u32 = 256;

/// Returns the pixels of a frame at `path`, over the bounds of the input at `at`.
pub(super) fn of(frame: &Frame, bounds: &Bounds, path: &str, at: &str, notes: &mut Vec<String>) -> Result<Size, Error> {
    match (frame.width, frame.height, frame.resx, frame.resy) {
        (Some(width), Some(height), None, None) => {
            Ok(Size { width: side(width, path, "width")?, height: side(height, path, "height")? })
        }
        (None, None, Some(x), Some(y)) => {
            let extent = bounds::extent(bounds, &format!("{at}input.bounds"))?;
            by_resolution(&extent, x, y, path)
        }
        (None, None, None, None) => {
            notes.push(format!(
                "{path} says neither pixels nor resolution: the service's {DEFAULT_SIDE} × {DEFAULT_SIDE} px"
            ));
            Size::new(DEFAULT_SIDE, DEFAULT_SIDE)
        }
        _ => {
            let remedy = "give both `width` and `height`, or both `resx` and `resy`";
            Err(Error::new(ErrorKind::Missing, "pixels and resolution are mixed or incomplete", remedy).at(path))
        }
    }
}

fn side(pixels: f64, path: &str, name: &str) -> Result<Count, Error> {
    Count::checked(pixels).map_err(|error| error.at(format!("{path}.{name}")))
}

fn by_resolution(extent: &Extent, x: f64, y: f64, path: &str) -> Result<Size, Error> {
    Ok(Size { width: pixels(extent.width, x, path, "resx")?, height: pixels(extent.height, y, path, "resy")? })
}

/// Returns how many pixels of a resolution a length has, rounded up.
pub(super) fn pixels(length: f64, resolution: f64, path: &str, name: &str) -> Result<Count, Error> {
    let path = format!("{path}.{name}");
    if !(resolution > 0.0 && resolution.is_finite()) {
        let problem = format!("{resolution} is out of bounds");
        return Err(Error::new(ErrorKind::OutOfBounds, problem, "give a resolution above zero").at(path));
    }
    if resolution > length {
        let problem = format!("a pixel of {resolution} is larger than the bounds, which measure {length:.6}");
        let remedy = "give the resolution in units of the bounds' CRS, degrees for EPSG:4326";
        return Err(Error::new(ErrorKind::OutOfBounds, problem, remedy).at(path));
    }
    Count::round_up(length / resolution).map_err(|_| {
        let problem = format!("{length:.6} / {resolution} are more than {} pixels", Count::MAX);
        Error::gap(ErrorKind::OutOfBounds, problem, Gap::PIXELS.or("give a coarser resolution")).at(path)
    })
}
