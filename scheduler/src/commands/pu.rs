//! `rampmeter pu`

use super::output;
use super::output::table::table;
use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use rampmeter_sentinel_hub::{
    Api, Correction, Count, Deployment, Estimate, Format, Fusion, Given, MAX_BODY, Parameters, Rules, Size,
};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What `pu` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rampmeter pu --width 512 --height 512 --bands 3
  rampmeter pu --width 1024 --height 1024 --bands 4 --format float32 --samples 2 --orthorectified
  rampmeter pu --width 512 --height 512 --bands 3 --fusion 2+1
  rampmeter pu --body request.json
  rampmeter pu --body request.json --api statistical --samples 3 --json

With a body, options go before what the body says. Bands, sample types and mosaicking are read from its evalscript, if
`setup()` returns a literal; if it computes, pass --bands, --samples and --format. No script is run. What the body
leaves open counts as the dearer.")]
pub struct PuArgs {
    /// The API: process (also for OGC), statistical, async or batch.
    #[arg(long, default_value_t)]
    api: Api,
    /// Read the request's JSON body from this file, or from standard input if it is `-`.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// The width of the output, or of one tile, in pixels.
    #[arg(long, value_name = "PX", requires = "height", required_unless_present = "body")]
    width: Option<Count>,
    /// The height of the output, or of one tile, in pixels.
    #[arg(long, value_name = "PX", requires = "width", required_unless_present = "body")]
    height: Option<Count>,
    /// The number of input bands; `dataMask` counts only if there is no other.
    #[arg(long, value_name = "N", required_unless_present = "body")]
    bands: Option<Count>,
    /// The format of the output values: integer for up to 16 bits (JPEG, PNG, most TIFFs, statistics),
    /// float32 for TIFF of 32-bit floats, octet-stream for `application/octet-stream`.
    #[arg(long, value_parser = PossibleValuesParser::new(Format::ALL.map(Format::as_str)).map(|name| Format::named(&name).expect("it is listed")))]
    format: Option<Format>,
    /// The number of samples for each pixel, such as acquisitions with mosaicking ORBIT.
    #[arg(long, value_name = "N")]
    samples: Option<Count>,
    /// The number of time intervals of statistics.
    #[arg(long, value_name = "N")]
    intervals: Option<Count>,
    /// The number of tiles of a batch request.
    #[arg(long, value_name = "N")]
    tiles: Option<Count>,
    /// The numbers of collections in data fusion: at the called deployment, and elsewhere.
    #[arg(long, value_name = "LOCAL+REMOTE", value_parser = fusion, conflicts_with = "body")]
    fusion: Option<Fusion>,
    /// Sentinel-1 is orthorectified.
    #[arg(long, conflicts_with = "body")]
    orthorectified: bool,
    /// Sentinel-1 is corrected radiometrically for terrain.
    #[arg(long, conflicts_with = "body")]
    terrain_corrected: bool,
    /// Sentinel-1's speckle is filtered.
    #[arg(long, conflicts_with = "body")]
    speckle_filter: bool,
    /// The host of the called deployment: collections of a body that are elsewhere count twice.
    #[arg(long, value_name = "HOST", requires = "body")]
    deployment: Option<Deployment>,
    /// The data `type` of a collection in the body that is at that deployment; may be repeated.
    #[arg(long, value_name = "TYPE", requires = "body")]
    local: Vec<String>,
    /// The version of the rules; the latest if none is given.
    #[arg(long, value_name = "VERSION", value_parser = Rules::named)]
    rules: Option<&'static Rules>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

fn fusion(text: &str) -> Result<Fusion, String> {
    let counts = text.split_once('+').and_then(|(local, remote)| Some((local.parse().ok()?, remote.parse().ok()?)));
    let (local, remote) = counts.ok_or("give two numbers, such as 2+1")?;
    Fusion::new(local, remote).map_err(|error| error.to_string())
}

/// Prints the cost of a request in processing units.
///
/// # Errors
/// If the body is unreadable or invalid, or does not determine the cost. The message states what to change.
pub fn run(args: &PuArgs) -> anyhow::Result<()> {
    let estimate = match &args.body {
        Some(path) => {
            let body = read(path, MAX_BODY).with_context(|| format!("can't read {}", path.display()))?;
            Estimate::of_body(args.api, body, &args.given()).with_context(|| path.display().to_string())?
        }
        None => args.rules.unwrap_or_else(Rules::latest).estimate(args.api, &args.parameters())?,
    };
    output::show(args.json, &estimate, render)
}

/// Reads a file, or standard input if `path` is `-`, to one byte beyond `most`, which shows that a body is too long.
pub(super) fn read(path: &Path, most: usize) -> std::io::Result<Vec<u8>> {
    let source: Box<dyn Read> =
        if path == Path::new("-") { Box::new(std::io::stdin()) } else { Box::new(File::open(path)?) };
    let mut body = Vec::new();
    source.take(most as u64 + 1).read_to_end(&mut body)?;
    Ok(body)
}

impl PuArgs {
    fn given(&self) -> Given {
        Given {
            rules: self.rules,
            deployment: self.deployment.unwrap_or_default(),
            local: self.local.clone(),
            width: self.width,
            height: self.height,
            tiles: self.tiles,
            bands: self.bands,
            format: self.format,
            samples: self.samples,
            intervals: self.intervals,
        }
    }

    fn parameters(&self) -> Parameters {
        let or_one = |count: Option<Count>| count.unwrap_or(Count::ONE);
        Parameters {
            size: Size { width: or_one(self.width), height: or_one(self.height) },
            tiles: or_one(self.tiles),
            bands: or_one(self.bands),
            format: self.format.unwrap_or_default(),
            samples: or_one(self.samples),
            intervals: or_one(self.intervals),
            fusion: self.fusion,
            correction: match (self.terrain_corrected, self.orthorectified) {
                (true, _) => Correction::TerrainCorrected,
                (false, true) => Correction::Orthorectified,
                (false, false) => Correction::None,
            },
            speckle_filter: self.speckle_filter,
        }
    }
}

fn render(estimate: &Estimate) -> String {
    let (amount, api, least) = (estimate.amount, estimate.api, estimate.minimum);
    let total = format!("{amount} processing units ({api}, at least {least}; rules {})", estimate.rules);
    let notes: String = estimate.notes.iter().map(|note| format!("note: {note}\n")).collect();
    let factors = estimate.factors.iter();
    let factors = factors.map(|factor| [factor.name.to_owned(), factor.value.to_string(), factor.why.clone()]);
    format!("{}\n{total}\n{notes}", table(&["factor", "×", "why"], [1], factors))
}
