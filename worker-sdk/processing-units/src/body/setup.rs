//! The result of `setup()`.

use crate::{Count, Error, ErrorKind};
use serde_json::Value;
use std::collections::BTreeSet;

/// The band that is free besides other bands.
const DATA_MASK: &str = "dataMask";

/// Sample types of at most 16 bits.
const INTEGERS: [&str; 5] = ["AUTO", "INT8", "UINT8", "INT16", "UINT16"];

/// The most characters of an unknown value that an error shows.
const MOST_SHOWN: usize = 40;

/// The result of `setup()`.
pub(super) struct Setup(Value);

impl Setup {
    pub(super) fn new(answer: Value) -> Self {
        Setup(answer)
    }

    /// The number of input bands that are charged. A band counts once for each source.
    pub(super) fn bands(&self, path: &str) -> Result<Count, Error> {
        let wrong = |at: &str| {
            let remedy = "return `input` as an array of band names, or of objects with `bands`";
            Error::new(ErrorKind::Malformed, "these are no bands", remedy).at(format!("{path}: setup().input{at}"))
        };
        let entries = self.0["input"].as_array().filter(|entries| !entries.is_empty()).ok_or_else(|| wrong(""))?;
        let (mut bands, mut masked) = (BTreeSet::new(), false);
        for (index, entry) in entries.iter().enumerate() {
            let (source, names) = source_and_bands(entry).ok_or_else(|| wrong(&format!("[{index}]")))?;
            for name in names {
                let name = name.as_str().ok_or_else(|| wrong(&format!("[{index}].bands")))?;
                masked |= name == DATA_MASK;
                bands.extend((name != DATA_MASK).then_some((source, name)));
            }
        }
        match u32::try_from(bands.len()) {
            Ok(0) if masked => Ok(Count::ONE),
            Ok(0) | Err(_) => Err(wrong("")),
            Ok(count) => Count::new(count),
        }
    }

    /// The samples of data for each pixel.
    pub(super) fn samples(&self, path: &str) -> Result<Count, Error> {
        let mosaicking = &self.0["mosaicking"];
        let is_simple = mosaicking.as_str().is_some_and(|name| name.eq_ignore_ascii_case("SIMPLE"));
        if mosaicking.is_null() || is_simple {
            return Ok(Count::ONE);
        }
        let problem = format!("how many samples a pixel has with mosaicking {} depends on the data", shown(mosaicking));
        let error = Error::unknowable(problem, "the samples per pixel", &["samples"]);
        Err(error.at(format!("{path}: setup().mosaicking")))
    }

    /// The outputs that are 32-bit floats.
    pub(super) fn floats(&self, path: &str) -> Result<Vec<String>, Error> {
        let output = &self.0["output"];
        let outputs = output.as_array().map_or(std::slice::from_ref(output), Vec::as_slice);
        let mut floats = Vec::new();
        for (index, output) in outputs.iter().enumerate() {
            if is_float(&output["sampleType"], &format!("{path}: setup().output[{index}].sampleType"))? {
                floats.push(output["id"].as_str().unwrap_or("default").to_owned());
            }
        }
        Ok(floats)
    }
}

/// The source of an entry of `input`, and its bands.
fn source_and_bands(entry: &Value) -> Option<(&str, &[Value])> {
    if entry.is_string() {
        return Some(("", std::slice::from_ref(entry)));
    }
    let source = entry["datasource"].as_str().unwrap_or_default();
    Some((source, entry["bands"].as_array()?))
}

fn is_float(sample_type: &Value, path: &str) -> Result<bool, Error> {
    let name = if sample_type.is_null() { Some("AUTO") } else { sample_type.as_str() };
    match name {
        Some("FLOAT32") => Ok(true),
        Some(name) if INTEGERS.contains(&name) => Ok(false),
        Some(_) | None => {
            let problem = format!("{} is no sample type that is known here", shown(sample_type));
            Err(Error::unknowable(problem, "the format", &["format"]).at(path))
        }
    }
}

/// The beginning of a value, for error messages.
fn shown(value: &Value) -> String {
    format!("`{}`", value.to_string().chars().take(MOST_SHOWN).collect::<String>())
}
