//! Reading a body.

use crate::{Error, ErrorKind};
use serde::de::DeserializeOwned;

/// The longest body that is read, in bytes: an evalscript of half a megabyte and a large geometry.
pub const MAX_BODY: usize = 4 * 1024 * 1024;

/// Unknown keys are left to the service, which knows more keys than matter here.
pub(super) fn body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    if body.len() > MAX_BODY {
        let problem = format!("the body has {} bytes, at most {MAX_BODY}", body.len());
        return Err(Error::new(ErrorKind::Malformed, problem, "pass parameters instead of a body"));
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
    let remedy = if error.is_data() { "correct the body" } else { "pass a request body as JSON" };
    Error::new(ErrorKind::Malformed, error.to_string(), remedy)
}
