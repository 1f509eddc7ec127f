//! The rules of charging, as data.

use crate::parameters::{Correction, Format, Fusion, Parameters};
use crate::{Api, Error, ErrorKind, Estimate, Factor, Ratio};
use serde::Deserialize;
use std::sync::LazyLock;

/// A version of the rules by which the service charges requests.
///
/// ```
/// use rampmeter_sentinel_hub::Rules;
/// assert_eq!(Rules::latest().version(), "2026-11");
/// let error = Rules::named("1999-12").unwrap_err();
/// assert_eq!(error.to_string(), "`1999-12` is no version of the rules; pass one of 2026-11, 2023-01");
/// ```
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    version: String,
    /// The pixels that one unit covers.
    pixels: u32,
    least_area: Ratio,
    /// The bands that one unit covers.
    bands: u32,
    formats: Formats,
    /// Absent in earlier versions, which did not charge for it.
    fusion: Option<FusionRule>,
    /// Absent in earlier versions, which did not charge for it.
    sentinel1: Option<Sentinel1>,
    apis: Apis,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Formats {
    float32: Ratio,
    octet_stream: Ratio,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FusionRule {
    local: u32,
    remote: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sentinel1 {
    orthorectified: Ratio,
    terrain_corrected: Ratio,
    speckle_filtered: Ratio,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Apis {
    process: ApiRule,
    statistical: ApiRule,
    asynchronous: ApiRule,
    batch: ApiRule,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApiRule {
    least: Ratio,
    discount: Option<Discount>,
}

/// A factor for requests or tiles with at least this many pixels.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Discount {
    factor: Ratio,
    pixels: u64,
}

/// Latest first.
const TEXTS: [&str; 2] = [include_str!("../rules/2026-11.json"), include_str!("../rules/2023-01.json")];

static ALL: LazyLock<Vec<Rules>> = LazyLock::new(|| {
    TEXTS.iter().map(|text| serde_json::from_str(text).expect("rules that are shipped are valid")).collect()
});

impl Rules {
    /// Returns the latest version.
    #[must_use]
    pub fn latest() -> &'static Rules {
        &ALL[0]
    }

    /// Iterates over all versions, latest first.
    pub fn all() -> impl Iterator<Item = &'static Rules> {
        ALL.iter()
    }

    /// Returns the version named after the month in which it was taken from the documentation.
    ///
    /// # Errors
    /// If there is no such version. The error lists the versions.
    pub fn named(version: &str) -> Result<&'static Rules, Error> {
        Rules::all().find(|rules| rules.version == version).ok_or_else(|| {
            let known: Vec<_> = Rules::all().map(Rules::version).collect();
            let problem = format!("`{version}` is no version of the rules");
            Error::new(ErrorKind::NotKnown, problem, format!("pass one of {}", known.join(", ")))
        })
    }

    /// Returns the name of this version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Estimates the cost of a request with these parameters.
    ///
    /// # Errors
    /// If it exceeds what a [cost](rampmeter_protocol::cost) can hold.
    pub fn estimate(&'static self, api: Api, parameters: &Parameters) -> Result<Estimate, Error> {
        let mut factors = vec![self.area(parameters)?, self.bands(parameters), self.format(parameters.format)];
        factors.push(samples(parameters));
        factors.extend(tiles(parameters));
        factors.extend(parameters.fusion.and_then(|fusion| self.fusion(fusion)));
        factors.extend(self.correction(parameters.correction));
        factors.extend(self.speckle_filter(parameters.speckle_filter));
        factors.extend(self.discount(api, parameters));
        Estimate::new(&self.version, api, self.api(api).least, factors)
    }

    fn api(&self, api: Api) -> &ApiRule {
        match api {
            Api::Process => &self.apis.process,
            Api::Statistical => &self.apis.statistical,
            Api::Asynchronous => &self.apis.asynchronous,
            Api::Batch => &self.apis.batch,
        }
    }

    fn area(&self, parameters: &Parameters) -> Result<Factor, Error> {
        let size = parameters.size;
        let area = Ratio::of(size.pixels(), self.pixels.into()).max(self.least_area)?;
        let why = format!("{} × {} px / {}, at least {}", size.width, size.height, self.pixels, self.least_area);
        Ok(Factor::new("area", area, why))
    }

    fn bands(&self, parameters: &Parameters) -> Factor {
        let bands = parameters.bands.get();
        Factor::new("bands", Ratio::of(bands.into(), self.bands.into()), format!("{bands} / {}", self.bands))
    }

    fn format(&self, format: Format) -> Factor {
        let why = match format {
            Format::Integer => "up to 16 bits",
            Format::Float32 => "32-bit float",
            Format::OctetStream => "application/octet-stream",
        };
        Factor::new("format", self.format_factor(format), why.to_owned())
    }

    pub(crate) fn format_factor(&self, format: Format) -> Ratio {
        match format {
            Format::Integer => Ratio::ONE,
            Format::Float32 => self.formats.float32,
            Format::OctetStream => self.formats.octet_stream,
        }
    }

    fn fusion(&self, fusion: Fusion) -> Option<Factor> {
        let rule = self.fusion.as_ref()?;
        let (local, remote) = (u64::from(fusion.local), u64::from(fusion.remote));
        let value = local * u64::from(rule.local) + remote * u64::from(rule.remote);
        let why = format!("{local} local × {} + {remote} remote × {}", rule.local, rule.remote);
        Some(Factor::new("fusion", Ratio::of(value, 1), why))
    }

    fn correction(&self, correction: Correction) -> Option<Factor> {
        let rule = self.sentinel1.as_ref()?;
        match correction {
            Correction::None => None,
            Correction::Orthorectified => {
                Some(Factor::new("orthorectification", rule.orthorectified, "Sentinel-1".to_owned()))
            }
            Correction::TerrainCorrected => {
                let why = "Sentinel-1, instead of orthorectification".to_owned();
                Some(Factor::new("terrain correction", rule.terrain_corrected, why))
            }
        }
    }

    fn speckle_filter(&self, filtered: bool) -> Option<Factor> {
        let rule = self.sentinel1.as_ref().filter(|_| filtered)?;
        Some(Factor::new("speckle filter", rule.speckle_filtered, "Sentinel-1".to_owned()))
    }

    fn discount(&self, api: Api, parameters: &Parameters) -> Option<Factor> {
        let discount = self.api(api).discount.as_ref()?;
        let applies = parameters.size.pixels() >= discount.pixels;
        let why = format!("for {} px and more", discount.pixels);
        applies.then(|| Factor::new("discount", discount.factor, why))
    }
}

fn samples(parameters: &Parameters) -> Factor {
    let (samples, intervals) = (parameters.samples.get(), parameters.intervals.get());
    let why =
        if intervals == 1 { "per pixel".to_owned() } else { format!("{samples} in each of {intervals} intervals") };
    let value = Ratio::of(u64::from(samples) * u64::from(intervals), 1);
    Factor::new("samples", value, why)
}

fn tiles(parameters: &Parameters) -> Option<Factor> {
    let tiles = parameters.tiles.get();
    (tiles > 1).then(|| Factor::new("tiles", Ratio::of(tiles.into(), 1), "of this area".to_owned()))
}
