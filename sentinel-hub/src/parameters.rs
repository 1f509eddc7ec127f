//! The parameters of a request that affect its cost.

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
    /// Number of columns.
    pub width: Count,
    /// Number of rows.
    pub height: Count,
}

rampmeter_protocol::named! {
    /// The format of output values.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Format {
        /// Up to 16 bits per value: JPEG, PNG, most TIFFs, statistics.
        #[default]
        Integer = "integer",
        /// TIFF of 32-bit floats.
        Float32 = "float32",
        /// `application/octet-stream`
        OctetStream = "octet-stream",
    }
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

/// The collections in one request, if there are several.
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

/// The parameters of a request that affect its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Parameters {
    /// The pixels of the output, or of one tile.
    pub size: Size,
    /// Number of tiles of this size in a batch request.
    pub tiles: Count,
    /// Number of input bands.
    pub bands: Count,
    /// The format of the output values.
    pub format: Format,
    /// Number of samples of data per pixel and interval.
    pub samples: Count,
    /// Number of intervals of the statistics.
    pub intervals: Count,
    /// The collections, if there are several.
    pub fusion: Option<Fusion>,
    /// The correction of Sentinel-1.
    pub correction: Correction,
    /// Whether Sentinel-1's speckle is filtered.
    pub speckle_filter: bool,
}

impl Size {
    /// Creates a size of this width and height in pixels.
    ///
    /// # Errors
    /// If one is not a valid [`Count`].
    pub fn new(width: u32, height: u32) -> Result<Self, Error> {
        Ok(Size { width: Count::new(width)?, height: Count::new(height)? })
    }

    /// Returns the number of pixels.
    #[must_use]
    pub fn pixels(self) -> u64 {
        u64::from(self.width.get()) * u64::from(self.height.get())
    }
}

impl Fusion {
    /// Creates a fusion of collections at the request's deployment and elsewhere.
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
    /// Creates parameters with these pixels and input bands (`dataMask` only if it is the only
    /// one). The rest is minimal: integers, one sample per pixel, one tile, one collection.
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
}
