//! Parsing of bodies.

use crate::{Error, ErrorKind};
use serde::de::DeserializeOwned;

/// Longest body that is read, in bytes: an evalscript of a megabyte, escaped, and a large geometry.
pub const MAX_BODY: usize = 4 * 1024 * 1024;

const NO_JSON: &str = "pass the body of a request to Sentinel Hub, such as `{\"input\": …, \"output\": …}`";

/// Unknown keys are left to the service, which knows more keys than matter here.
pub(super) fn body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    if body.len() > MAX_BODY {
        let problem = format!("the body has {} bytes, at most {MAX_BODY}", body.len());
        return Err(Error::new(ErrorKind::Malformed, problem, "pass parameters instead of a body"));
    }
    if body.trim_ascii().is_empty() {
        return Err(Error::new(ErrorKind::Malformed, "the body is empty", NO_JSON));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let read: T = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| wrong(&error))?;
    deserializer.end().map_err(|error| malformed(&error))?;
    Ok(read)
}

fn wrong(error: &serde_path_to_error::Error<serde_json::Error>) -> Error {
    let path = error.path().to_string();
    let wrong = malformed(error.inner());
    if path == "." { wrong } else { wrong.at(path) }
}

fn malformed(error: &serde_json::Error) -> Error {
    if error.is_data() {
        return Error::new(ErrorKind::Malformed, for_people(&error.to_string()), "correct the body");
    }
    let problem = format!("the body is no JSON, from line {}, column {} on", error.line(), error.column());
    Error::new(ErrorKind::Malformed, problem, NO_JSON)
}

/// Replaces the names of types, which mean nothing to the user.
fn for_people(message: &str) -> String {
    let Some((before, behind)) = message.split_once("expected struct ") else { return message.to_owned() };
    let (_name, rest) = behind.split_once(' ').unwrap_or((behind, ""));
    format!("{before}expected an object {rest}")
}
