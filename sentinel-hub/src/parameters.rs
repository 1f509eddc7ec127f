//! What a request asks for.

use crate::{Count, Error, ErrorKind};
use serde::Deserialize;

/// Pixels of the output, or of one tile.
///
/// ```
/// use rampmeter_sentinel_hub::Size;
/// assert_eq!(Size::new(512, 256).unwrap().pixels(), 131_072);
/// assert!(Size::new(512, 0).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub(crate) width: Count,
    pub(crate) height: Count,
}

/// The format of output values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Up to 16 bits a value: JPEG, PNG, most TIFFs, statistics.
    #[default]
    Integer,
    /// TIFF of 32-bit floats.
    Float32,
    /// `application/octet-stream`
    OctetStream,
}

/// The correction of Sentinel-1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Correction {
    /// No correction.
    #[default]
    None,
    /// Orthorectified.
    Orthorectified,
    /// Radiometric terrain correction, which includes orthorectification.
    TerrainCorrected,
}

/// Several collections in one request.
///
/// ```
/// use rampmeter_sentinel_hub::Fusion;
/// assert!(Fusion::new(2, 1).is_ok());
/// assert_eq!(Fusion::new(1, 0).unwrap_err().to_string(), "data fusion is of two collections or more, not of 1; leave it out for one");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fusion {
    pub(crate) local: u32,
    pub(crate) remote: u32,
}

/// What a request asks for.
///
/// ```
/// use rampmeter_sentinel_hub::{Count, Fusion, Parameters, Size};
/// # fn main() -> Result<(), rampmeter_sentinel_hub::Error> {
/// let fused = Parameters::new(Size::new(512, 512)?, Count::new(3)?).fusion(Fusion::new(2, 1)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Parameters {
    pub(crate) size: Size,
    pub(crate) tiles: Count,
    pub(crate) bands: Count,
    pub(crate) format: Format,
    pub(crate) samples: Count,
    pub(crate) intervals: Count,
    pub(crate) fusion: Option<Fusion>,
    pub(crate) correction: Correction,
    pub(crate) speckle_filter: bool,
}

impl Size {
    /// Width and height in pixels.
    ///
    /// # Errors
    /// If one is no [`Count`].
    pub fn new(width: u32, height: u32) -> Result<Self, Error> {
        Ok(Size { width: Count::new(width)?, height: Count::new(height)? })
    }

    /// Width and height that are already counts.
    #[must_use]
    pub const fn of(width: Count, height: Count) -> Self {
        Size { width, height }
    }

    /// The number of pixels.
    #[must_use]
    pub fn pixels(self) -> u64 {
        u64::from(self.width.get()) * u64::from(self.height.get())
    }
}

impl Fusion {
    /// How many collections are at the request's deployment, and how many elsewhere.
    ///
    /// # Errors
    /// If there are fewer than two.
    pub fn new(local: u32, remote: u32) -> Result<Self, Error> {
        let all = u64::from(local) + u64::from(remote);
        if all > u64::from(Count::MAX) {
            return Err(Error::new(ErrorKind::OutOfBounds, format!("{all} collections are too many"), "count again"));
        }
        if all < 2 {
            let problem = format!("data fusion is of two collections or more, not of {all}");
            return Err(Error::new(ErrorKind::OutOfBounds, problem, "leave it out for one"));
        }
        Ok(Fusion { local, remote })
    }
}

impl Parameters {
    /// Parameters with these pixels and input bands. `dataMask` does not count as a band unless it
    /// is the only one. The rest is minimal: integers, one sample a pixel, one tile, one
    /// collection.
    pub fn new(size: Size, bands: Count) -> Self {
        Parameters {
            size,
            tiles: Count::ONE,
            bands,
            format: Format::default(),
            samples: Count::ONE,
            intervals: Count::ONE,
            fusion: None,
            correction: Correction::default(),
            speckle_filter: false,
        }
    }

    /// The format of the output values.
    pub fn format(self, format: Format) -> Self {
        Parameters { format, ..self }
    }

    /// How many samples of data each pixel needs, in each interval.
    pub fn samples(self, samples: Count) -> Self {
        Parameters { samples, ..self }
    }

    /// How many intervals of time the statistics have.
    pub fn intervals(self, intervals: Count) -> Self {
        Parameters { intervals, ..self }
    }

    /// How many tiles of this size a batch request has.
    pub fn tiles(self, tiles: Count) -> Self {
        Parameters { tiles, ..self }
    }

    /// Several collections.
    pub fn fusion(self, fusion: impl Into<Option<Fusion>>) -> Self {
        Parameters { fusion: fusion.into(), ..self }
    }

    /// The correction of Sentinel-1.
    pub fn correction(self, correction: Correction) -> Self {
        Parameters { correction, ..self }
    }

    /// Whether Sentinel-1's speckle is filtered.
    pub fn speckle_filter(self, speckle_filter: bool) -> Self {
        Parameters { speckle_filter, ..self }
    }
}
