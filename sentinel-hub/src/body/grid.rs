//! The tiles of a batch request.

use super::bounds::{self, Crs, Extent};
use super::size;
use super::wire::{Batch, Bounds, Grid};
use crate::error::Gap;
use crate::{Count, Error, ErrorKind, Given, Size};

/// The length of the longest degree on Earth, in metres.
const LONGEST_DEGREE_M: f64 = 111_700.0;

struct Tiling {
    id: f64,
    side: f64,
    crs: Crs,
}

/// Tiles of 20 km, 10 km and 100 km, in metres of UTM, and of one degree.
const TILINGS: [Tiling; 4] = [
    Tiling { id: 0.0, side: 20_040.0, crs: Crs::Utm },
    Tiling { id: 1.0, side: 10_000.0, crs: Crs::Utm },
    Tiling { id: 2.0, side: 100_080.0, crs: Crs::Utm },
    Tiling { id: 3.0, side: 1.0, crs: Crs::Degrees },
];

/// Returns the pixels of one tile, and the largest possible number of tiles.
pub(super) fn tiles(
    batch: &Batch,
    bounds: &Bounds,
    given: &Given,
    notes: &mut Vec<String>,
) -> Result<(Size, Count), Error> {
    let (grid, path) = match (&batch.tiling_grid, &batch.input) {
        (Some(grid), _) => (Some(grid), "tilingGrid"),
        (None, input) => (input.as_ref(), "input"),
    };
    let size = given.size().map_or_else(|| tile(grid, path), Ok)?;
    let tiles = given.tiles.map_or_else(|| most_tiles(tiling(grid, path)?, bounds, notes), Ok)?;
    Ok((size, tiles))
}

fn tiling(grid: Option<&Grid>, path: &str) -> Result<&'static Tiling, Error> {
    let id = grid.and_then(|grid| grid.id.0);
    let known = TILINGS.iter().find(|tiling| id == Some(tiling.id));
    known.ok_or_else(|| match grid.and_then(|grid| grid.kind.as_deref()) {
        Some(kind) if kind != "tiling-grid" => {
            unknowable_tiles(&format!("`{kind}` does not tell the tiles")).at(format!("{path}.type"))
        }
        Some(_) | None => {
            unknowable_tiles("the grids that are known here have the ids 0, 1, 2 and 3").at(format!("{path}.id"))
        }
    })
}

fn unknowable_tiles(problem: &str) -> Error {
    Error::unknowable(problem, Gap::TILES)
}

/// Returns the pixels of one tile, with its buffer on both sides.
fn tile(grid: Option<&Grid>, path: &str) -> Result<Size, Error> {
    let tiling = tiling(grid, path)?;
    let resolution = grid.and_then(|grid| grid.resolution.0).ok_or_else(|| {
        Error::new(ErrorKind::Missing, "there is no resolution", "give one of the grid's")
            .at(format!("{path}.resolution"))
    })?;
    let pixels = size::pixels(tiling.side, resolution, path, "resolution")?.get();
    let buffered = |buffer: Option<f64>, name: &str| {
        let side = f64::from(pixels) + 2.0 * buffer.unwrap_or(0.0).max(0.0);
        Count::checked(side).map_err(|error| error.at(format!("{path}.{name}")))
    };
    let (x, y) = grid.map_or((None, None), |grid| (grid.buffer_x.0, grid.buffer_y.0));
    Ok(Size { width: buffered(x, "bufferX")?, height: buffered(y, "bufferY")? })
}

/// Returns the most tiles that the bounds can touch, wherever the lines of the grid are.
fn most_tiles(tiling: &Tiling, bounds: &Bounds, notes: &mut Vec<String>) -> Result<Count, Error> {
    let path = "processRequest.input.bounds";
    let extent = bounds::extent(bounds, path)?;
    let (width, height) = lengths(&extent, bounds::crs(bounds, path)?, tiling.crs)?;
    let touched = |length: f64| (length / tiling.side).ceil() + 1.0;
    notes.push("as many tiles as the bounds can touch: pass `tiles` if you know better".to_owned());
    Count::checked(touched(width) * touched(height)).map_err(|error| error.at(path))
}

/// Returns width and height in units of the grid, never too small.
fn lengths(extent: &Extent, from: Crs, to: Crs) -> Result<(f64, f64), Error> {
    match (from, to) {
        (Crs::Degrees, Crs::Degrees) => Ok((extent.width, extent.height)),
        (Crs::Degrees, Crs::Utm | Crs::WebMercator) => {
            let (south, north) = extent.vertical;
            // The parallel nearest to the equator is the longest.
            let latitude = if south <= 0.0 && north >= 0.0 { 0.0 } else { south.abs().min(north.abs()) };
            Ok((extent.width * LONGEST_DEGREE_M * latitude.to_radians().cos(), extent.height * LONGEST_DEGREE_M))
        }
        // A metre of this projection is at most one metre on the ground.
        (Crs::WebMercator | Crs::Utm, Crs::Utm | Crs::WebMercator) => Ok((extent.width, extent.height)),
        (Crs::WebMercator | Crs::Utm, Crs::Degrees) => {
            let path = "processRequest.input.bounds.properties.crs";
            Err(unknowable_tiles("tiles in degrees can't be counted over bounds in metres").at(path))
        }
    }
}
