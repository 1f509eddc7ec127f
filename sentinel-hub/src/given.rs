//! Facts that the caller knows and a body does not contain.

use crate::{Count, Deployment, Format, Rules, Size};

/// Facts that the caller knows and a body does not contain. They take precedence over the body.
///
/// ```
/// use rampmeter_sentinel_hub::{Api, Count, Estimate, Given};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let given = Given::default()
///     .samples(Count::new(12)?)
///     .deployment("sh.dataspace.copernicus.eu".parse()?)
///     .local("byoc-0a1b2c3d");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Given {
    pub(crate) rules: Option<&'static Rules>,
    pub(crate) deployment: Deployment,
    pub(crate) local: Vec<String>,
    pub(crate) size: Option<Size>,
    pub(crate) tiles: Option<Count>,
    pub(crate) bands: Option<Count>,
    pub(crate) format: Option<Format>,
    pub(crate) samples: Option<Count>,
    pub(crate) intervals: Option<Count>,
}

impl Given {
    /// The version of the rules, if not the latest.
    pub fn rules(self, rules: impl Into<Option<&'static Rules>>) -> Self {
        Given { rules: rules.into(), ..self }
    }

    /// The deployment that the request goes to; `services.sentinel-hub.com` by default.
    pub fn deployment(self, deployment: Deployment) -> Self {
        Given { deployment, ..self }
    }

    /// A collection, by the `type` of its data, that is at that deployment.
    pub fn local(mut self, collection: &str) -> Self {
        self.local.push(collection.to_owned());
        self
    }

    /// The pixels of the output, or of one tile.
    pub fn size(self, size: impl Into<Option<Size>>) -> Self {
        Given { size: size.into(), ..self }
    }

    /// How many tiles a batch request has.
    pub fn tiles(self, tiles: impl Into<Option<Count>>) -> Self {
        Given { tiles: tiles.into(), ..self }
    }

    /// How many input bands there are. `dataMask` does not count unless it is the only one.
    pub fn bands(self, bands: impl Into<Option<Count>>) -> Self {
        Given { bands: bands.into(), ..self }
    }

    /// The format of the output values.
    pub fn format(self, format: impl Into<Option<Format>>) -> Self {
        Given { format: format.into(), ..self }
    }

    /// How many samples of data each pixel needs, in each interval.
    pub fn samples(self, samples: impl Into<Option<Count>>) -> Self {
        Given { samples: samples.into(), ..self }
    }

    /// How many intervals of time the statistics have.
    pub fn intervals(self, intervals: impl Into<Option<Count>>) -> Self {
        Given { intervals: intervals.into(), ..self }
    }
}
