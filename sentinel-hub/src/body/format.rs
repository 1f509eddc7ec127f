//! The format of the output.

use super::script::Script;
use super::wire::Response;
use crate::error::Gap;
use crate::{Error, Format, Rules};

/// Media types with at most 16 bits per value.
const INTEGERS: [&str; 4] = ["image/png", "image/jpeg", "application/json", "application/geo+json"];

/// Returns the most expensive response format of the output at `path`.
pub(super) fn of(
    responses: &[Response],
    script: &Script,
    path: &str,
    rules: &Rules,
    notes: &mut Vec<String>,
) -> Result<Format, Error> {
    if responses.is_empty() {
        return by_header(script, path, notes);
    }
    let mut dearest = Format::Integer;
    for (index, response) in responses.iter().enumerate() {
        let format = one(response, script, &format!("{path}.responses[{index}].format.type"))?;
        if rules.format_factor(format).to_f64() > rules.format_factor(dearest).to_f64() {
            dearest = format;
        }
    }
    Ok(dearest)
}

fn one(response: &Response, script: &Script, path: &str) -> Result<Format, Error> {
    let kind = response.format.kind.as_deref().unwrap_or("image/png");
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/octet-stream" => Ok(Format::OctetStream),
        "image/tiff" => tiff(response.identifier.as_deref().unwrap_or("default"), script),
        known if INTEGERS.contains(&known) => Ok(Format::Integer),
        _ => {
            let problem = format!("`{kind}` is no media type that is known here");
            Err(Error::unknowable(problem, Gap::FORMAT).at(path))
        }
    }
}

fn tiff(identifier: &str, script: &Script) -> Result<Format, Error> {
    let floats = script.setup(Gap::FORMAT)?.floats(script.path())?;
    let is_float = floats.iter().any(|output| output == identifier);
    Ok(if is_float { Format::Float32 } else { Format::Integer })
}

/// Without responses the header `Accept` decides, which the body does not show.
fn by_header(script: &Script, path: &str, notes: &mut Vec<String>) -> Result<Format, Error> {
    let floats = script.setup(Gap::FORMAT)?.floats(script.path())?;
    if floats.is_empty() {
        return Ok(Format::Integer);
    }
    notes.push(format!("{path}.responses is empty: counted as the TIFF of 32-bit floats that `Accept` may ask for"));
    Ok(Format::Float32)
}
