//! Estimates from the bodies of requests.

mod bounds;
mod format;
mod gaps;
mod grid;
mod intervals;
mod read;
mod script;
mod setup;
mod size;
mod sources;
mod wire;

pub use read::MAX_BODY;

use crate::error::Gap;
use crate::{Api, Count, Error, Estimate, Given, Parameters, Rules, Size};
use gaps::Gaps;
use script::Script;
use wire::{Batch, Process, Statistical};

impl Estimate {
    /// Estimates the cost of a request with this body.
    ///
    /// # Errors
    /// If the body is wrong or incomplete: where, and what to correct or to pass in `given`.
    pub fn of_body(api: Api, body: impl AsRef<[u8]>, given: &Given) -> Result<Self, Error> {
        let body = body.as_ref();
        let rules = given.rules.unwrap_or_else(Rules::latest);
        let mut notes = Vec::new();
        let parameters = match api {
            Api::Process | Api::Asynchronous => process(&read::body::<Process>(body)?, "", rules, given, &mut notes),
            Api::Statistical => statistical(&read::body::<Statistical>(body)?, given, &mut notes),
            Api::Batch => batch(body, rules, given, &mut notes),
        };
        Ok(rules.estimate(api, &parameters?)?.with_notes(notes))
    }
}

/// A process request, at `at` in the body.
fn process(
    body: &Process,
    at: &str,
    rules: &'static Rules,
    given: &Given,
    notes: &mut Vec<String>,
) -> Result<Parameters, Error> {
    let read = || size::of(&body.output.frame(), &body.input.bounds, &format!("{at}output"), at, notes);
    let size = given.size().map_or_else(read, Ok);
    sized_process(body, at, size, rules, given, notes)
}

fn sized_process(
    body: &Process,
    at: &str,
    size: Result<Size, Error>,
    rules: &'static Rules,
    given: &Given,
    notes: &mut Vec<String>,
) -> Result<Parameters, Error> {
    let script = Script::new(body.evalscript.as_deref(), format!("{at}evalscript"));
    let mut gaps = Gaps::default();
    let size = gaps.known(size)?;
    let read = || format::of(&body.output.responses, &script, &format!("{at}output"), rules, notes);
    let format = gaps.known(given.format.map_or_else(read, Ok))?;
    let bands = gaps.known(bands(&script, given, notes))?;
    let samples = gaps.known(samples(&script, given))?;
    let (Some(size), Some(format), Some(bands), Some(samples)) = (size, format, bands, samples) else {
        return Err(gaps.error());
    };
    let parameters = Parameters { format, samples, ..Parameters::new(size, bands) };
    sources::apply(parameters, &body.input.data, &format!("{at}input.data"), given, notes)
}

fn statistical(body: &Statistical, given: &Given, notes: &mut Vec<String>) -> Result<Parameters, Error> {
    let aggregation = &body.aggregation;
    let mut gaps = Gaps::default();
    let read = || size::of(&aggregation.frame(), &body.input.bounds, "aggregation", "", notes);
    let size = gaps.known(given.size().map_or_else(read, Ok))?;
    let intervals = gaps.known(given.intervals.map_or_else(|| intervals::of(aggregation), Ok))?;
    let script = Script::new(aggregation.evalscript.as_deref(), "aggregation.evalscript".to_owned());
    let bands = gaps.known(bands(&script, given, notes))?;
    let samples = gaps.known(samples(&script, given))?;
    let (Some(size), Some(intervals), Some(bands), Some(samples)) = (size, intervals, bands, samples) else {
        return Err(gaps.error());
    };
    let format = given.format.unwrap_or_default();
    let parameters = Parameters { samples, intervals, format, ..Parameters::new(size, bands) };
    sources::apply(parameters, &body.input.data, "input.data", given, notes)
}

/// A batch request, or the process request inside one, given alone.
fn batch(body: &[u8], rules: &'static Rules, given: &Given, notes: &mut Vec<String>) -> Result<Parameters, Error> {
    let batch: Batch = read::body(body)?;
    let Some(request) = &batch.process_request else {
        let request: Process = read::body(body)?;
        let tiles = given.tiles.unwrap_or(Count::ONE);
        return Ok(Parameters { tiles, ..process(&request, "", rules, given, notes)? });
    };
    let grid = grid::tiles(&batch, &request.input.bounds, given, notes);
    let tiles = grid.as_ref().map_or(Count::ONE, |(_, tiles)| *tiles);
    let size = grid.map(|(size, _)| size);
    Ok(Parameters { tiles, ..sized_process(request, "processRequest.", size, rules, given, notes)? })
}

fn bands(script: &Script, given: &Given, notes: &mut Vec<String>) -> Result<Count, Error> {
    given.bands.map_or_else(|| script.setup(Gap::BANDS)?.bands(script.path(), notes), Ok)
}

fn samples(script: &Script, given: &Given) -> Result<Count, Error> {
    given.samples.map_or_else(|| script.setup(Gap::SAMPLES)?.samples(script.path()), Ok)
}
