//! Collections, and the processing of Sentinel-1.

use super::wire::{Data, Processing};
use crate::deployment::Location;
use crate::{Correction, Error, ErrorKind, Fusion, Given, Parameters};

/// Adds what the entries of `data` at `path` require.
pub(super) fn apply(
    parameters: Parameters,
    data: &[Data],
    path: &str,
    given: &Given,
    notes: &mut Vec<String>,
) -> Result<Parameters, Error> {
    if data.is_empty() {
        return Err(Error::new(ErrorKind::Missing, "there is no collection", "give one or more").at(path));
    }
    let radar = || data.iter().filter(|data| is_sentinel1(&data.kind)).map(|data| &data.processing);
    let correction = radar().map(correction).max_by_key(|correction| price_rank(*correction)).unwrap_or_default();
    let speckle_filter = radar().any(is_filtered);
    Ok(Parameters { correction, speckle_filter, fusion: fusion(data, path, given, notes)?, ..parameters })
}

fn is_sentinel1(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    kind.starts_with("sentinel-1") || kind == "s1grd"
}

fn correction(processing: &Processing) -> Correction {
    let terrain = processing.back_coeff.as_deref().is_some_and(|back| back.eq_ignore_ascii_case("GAMMA0_TERRAIN"));
    match (terrain, processing.orthorectify.0) {
        (true, _) => Correction::TerrainCorrected,
        (false, Some(true)) => Correction::Orthorectified,
        (false, Some(false) | None) => Correction::None,
    }
}

fn price_rank(correction: Correction) -> u8 {
    match correction {
        Correction::None => 0,
        Correction::Orthorectified => 1,
        Correction::TerrainCorrected => 2,
    }
}

fn is_filtered(processing: &Processing) -> bool {
    let kind = processing.speckle_filter.as_ref().map(|filter| filter.kind.as_deref());
    kind.is_some_and(|kind| !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("NONE")))
}

/// Returns the data fusion of the entries. A collection not known to be local counts as remote.
fn fusion(data: &[Data], path: &str, given: &Given, notes: &mut Vec<String>) -> Result<Option<Fusion>, Error> {
    if data.len() == 1 {
        return Ok(None);
    }
    let (mut local, mut remote) = (0, 0);
    for (index, data) in data.iter().enumerate() {
        let location = given.deployment.location(&data.kind.to_ascii_lowercase());
        match location {
            _ if given.local.contains(&data.kind) => local += 1,
            Location::Local => local += 1,
            Location::Remote => remote += 1,
            Location::Unknown => {
                remote += 1;
                let host = given.deployment.host();
                notes.push(format!(
                    "{path}[{index}].type: `{}` counts as remote: pass it as `local` if it is at {host}",
                    data.kind
                ));
            }
        }
    }
    Fusion::new(local, remote).map(Some).map_err(|error| error.at(path))
}
