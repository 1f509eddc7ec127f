//! The result of `setup()`.

use crate::error::Gap;
use crate::{Count, Error, ErrorKind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The band that is free besides other bands.
const DATA_MASK: &str = "dataMask";

/// Sample types of at most 16 bits.
const INTEGERS: [&str; 5] = ["AUTO", "INT8", "UINT8", "INT16", "UINT16"];

/// Most characters of an unknown value that an error shows.
const MAX_SHOWN: usize = 40;

pub(super) struct Setup(Value);

impl Setup {
    pub(super) fn new(answer: Value) -> Self {
        Setup(answer)
    }

    /// Returns the number of input bands charged. A band counts once for each source.
    pub(super) fn bands(&self, path: &str, notes: &mut Vec<String>) -> Result<Count, Error> {
        let wrong = |at: &str| {
            let remedy = "return `input` as an array of band names, or of objects with `bands`";
            Error::new(ErrorKind::Malformed, "these are no bands", remedy).at(format!("{path}: setup().input{at}"))
        };
        let entries = self.0["input"].as_array().filter(|entries| !entries.is_empty()).ok_or_else(|| wrong(""))?;
        let (mut bands, mut masked) = (BTreeSet::new(), false);
        for (index, entry) in entries.iter().enumerate() {
            let (source, names) = source_and_bands(index, entry).ok_or_else(|| wrong(&format!("[{index}]")))?;
            if names.is_empty() {
                let problem = "no bands are named, which may mean all that there are";
                return Err(Error::unknowable(problem, Gap::BANDS).at(format!("{path}: setup().input[{index}].bands")));
            }
            for name in names {
                let name = name.as_str().ok_or_else(|| wrong(&format!("[{index}].bands")))?;
                masked |= name == DATA_MASK;
                bands.extend((name != DATA_MASK).then_some((source, name)));
            }
        }
        notes.extend(repeated(&bands).map(|name| {
            format!("{path}: setup().input: `{name}` counts for each entry without `datasource`: pass `bands` if it counts once")
        }));
        match u32::try_from(bands.len()) {
            Ok(0) if masked => Ok(Count::ONE),
            Ok(0) | Err(_) => Err(wrong("")),
            Ok(count) => Count::new(count),
        }
    }

    pub(super) fn samples(&self, path: &str) -> Result<Count, Error> {
        check_mosaicking(&self.0["mosaicking"], &format!("{path}: setup().mosaicking"))?;
        let entries = self.0["input"].as_array().map_or(&[][..], Vec::as_slice);
        for (index, entry) in entries.iter().enumerate() {
            check_mosaicking(&entry["mosaicking"], &format!("{path}: setup().input[{index}].mosaicking"))?;
        }
        Ok(Count::ONE)
    }

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

/// Checks that mosaicking is `SIMPLE`. Any other takes as many samples as there are data.
fn check_mosaicking(mosaicking: &Value, path: &str) -> Result<(), Error> {
    let is_simple = mosaicking.as_str().is_some_and(|name| name.eq_ignore_ascii_case("SIMPLE"));
    if mosaicking.is_null() || is_simple {
        return Ok(());
    }
    let problem =
        format!("how many samples a pixel has with mosaicking {} depends on the data", beginning_of(mosaicking));
    Err(Error::unknowable(problem, Gap::SAMPLES).at(path))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source<'a> {
    /// The only source.
    Sole,
    Named(&'a str),
    /// An entry without a source. Entries may read from different sources.
    Entry(usize),
}

fn source_and_bands(index: usize, entry: &Value) -> Option<(Source<'_>, &[Value])> {
    if entry.is_string() {
        return Some((Source::Sole, std::slice::from_ref(entry)));
    }
    let source = entry["datasource"].as_str().map_or(Source::Entry(index), Source::Named);
    Some((source, entry["bands"].as_array()?))
}

/// Returns the bands listed by more than one entry without a source.
fn repeated<'a>(bands: &BTreeSet<(Source<'a>, &'a str)>) -> impl Iterator<Item = &'a str> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for (_, name) in bands.iter().filter(|(source, _)| !matches!(source, Source::Named(_))) {
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name)
}

fn is_float(sample_type: &Value, path: &str) -> Result<bool, Error> {
    let name = if sample_type.is_null() { Some("AUTO") } else { sample_type.as_str() };
    match name {
        Some(name) if name.eq_ignore_ascii_case("FLOAT32") => Ok(true),
        Some(name) if INTEGERS.iter().any(|known| known.eq_ignore_ascii_case(name)) => Ok(false),
        Some(_) | None => {
            let problem = format!("{} is no sample type that is known here", beginning_of(sample_type));
            Err(Error::unknowable(problem, Gap::FORMAT).at(path))
        }
    }
}

fn beginning_of(value: &Value) -> String {
    format!("`{}`", value.to_string().chars().take(MAX_SHOWN).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `MAX_SHOWN`: 40 characters, with the quote before the text.
    #[test]
    fn an_error_shows_the_beginning_of_a_value() {
        assert_eq!(beginning_of(&Value::from("TILE")), "`\"TILE\"`");
        for length in [39, 40, 1_000_000] {
            assert_eq!(beginning_of(&Value::from("x".repeat(length))), format!("`\"{}`", "x".repeat(39)));
        }
    }
}
