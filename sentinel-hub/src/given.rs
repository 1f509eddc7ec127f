//! Facts that the caller provides.

use crate::{Count, Deployment, Format, Rules, Size};
use serde::{Deserialize, Deserializer, de::Error};

/// Facts that the caller knows and a body does not contain. They take precedence over the body.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    /// The version of the rules, if not the latest.
    #[serde(skip)]
    pub rules: Option<&'static Rules>,
    /// The deployment that the request goes to; `services.sentinel-hub.com` by default.
    #[serde(deserialize_with = "deployment")]
    pub deployment: Deployment,
    /// Collections at that deployment, by the `type` of their data.
    pub local: Vec<String>,
    /// The width of the output, or of one tile, in pixels. It counts only together with the height.
    pub width: Option<Count>,
    /// The height of the output, or of one tile, in pixels.
    pub height: Option<Count>,
    /// Number of tiles of a batch request.
    pub tiles: Option<Count>,
    /// Number of input bands. `dataMask` does not count unless it is the only one.
    pub bands: Option<Count>,
    /// The format of the output values.
    pub format: Option<Format>,
    /// Number of samples of data per pixel and interval.
    pub samples: Option<Count>,
    /// Number of intervals of the statistics.
    pub intervals: Option<Count>,
}

impl Given {
    pub(crate) fn size(&self) -> Option<Size> {
        Some(Size { width: self.width?, height: self.height? })
    }
}

fn deployment<'a, D: Deserializer<'a>>(written: D) -> Result<Deployment, D::Error> {
    let host = Option::<String>::deserialize(written)?;
    host.map_or(Ok(Deployment::default()), |host| host.parse().map_err(D::Error::custom))
}
