//! Keys that sign state records, so that only schedulers can write them.

use rampmeter_nats::key_file::bounded;
use ring::hmac;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The fewest characters of a key, so that it cannot be guessed.
const MIN_KEY: usize = 32;
/// Bound on keys: the present one, and earlier ones that a rotation still needs.
const MAX_KEYS: usize = 8;
/// The line that accepts unsigned records, while a fleet turns signatures on.
const UNSIGNED: &str = "unsigned";

/// The keys of the schedulers of one state. The first signs, all verify; without keys neither happens. Cheap to clone.
///
/// A file has one key per line. A new key is added below the present one first. Once every scheduler knows it,
/// it becomes the first.
#[derive(Clone, Default)]
pub struct StateKeys {
    keys: Arc<[hmac::Key]>,
    accepts_unsigned: bool,
}

/// Why the signature of a value is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// The value is not signed.
    #[error("it is not signed by a state key")]
    Missing,
    /// The value was written by somebody without a key, or for another name.
    #[error("its signature is by none of the state keys")]
    Wrong,
}

impl StateKeys {
    /// Reads the keys in the file at `path`. Empty lines, and lines that begin with `#`, are ignored.
    ///
    /// # Errors
    /// If it can't be read, or has no valid keys. No error quotes a key.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        let of_file = |error| io::Error::other(format!("{}: {error}", path.display()));
        let text = bounded(path).and_then(|bytes| String::from_utf8(bytes).map_err(|_| io::Error::other("no text")));
        Self::parse(&text.map_err(of_file)?).map_err(of_file)
    }

    pub(super) fn parse(text: &str) -> io::Result<Self> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (unsigned, keys): (Vec<&str>, Vec<&str>) = lines.partition(|line| *line == UNSIGNED);
        if !(1..=MAX_KEYS).contains(&keys.len()) || keys.iter().any(|key| key.len() < MIN_KEY) {
            let form = format!("1 to {MAX_KEYS} lines, each a key of {MIN_KEY} characters or more");
            return Err(io::Error::other(format!(
                "a file of state keys has {form}, and perhaps the line `{UNSIGNED}`"
            )));
        }
        let keys = keys.iter().map(|key| hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes())).collect();
        Ok(StateKeys { keys, accepts_unsigned: !unsigned.is_empty() })
    }

    /// Returns whether there is a key.
    #[must_use]
    pub fn signs(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Returns whether unsigned records are accepted.
    #[must_use]
    pub fn accepts_unsigned(&self) -> bool {
        self.accepts_unsigned
    }

    /// Signs the value of this name, in hexadecimal digits, if there is a key.
    pub(super) fn sign(&self, name: &str, header: &str, content: &[u8]) -> Option<String> {
        let tag = hmac::sign(self.keys.first()?, &signed(name, header, content));
        Some(tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Fails if the signature is missing, or by none of the keys.
    pub(super) fn check(
        &self,
        name: &str,
        header: &str,
        content: &[u8],
        signature: Option<&str>,
    ) -> Result<(), SignatureFault> {
        let tag = match signature {
            _ if !self.signs() => return Ok(()),
            None if self.accepts_unsigned => return Ok(()),
            None => return Err(SignatureFault::Missing),
            Some(signature) => bytes_of(signature).ok_or(SignatureFault::Wrong)?,
        };
        let signed = signed(name, header, content);
        let is_by = |key: &hmac::Key| hmac::verify(key, &signed, &tag).is_ok();
        if self.keys.iter().any(is_by) { Ok(()) } else { Err(SignatureFault::Wrong) }
    }
}

impl fmt::Debug for StateKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} state keys", self.keys.len())
    }
}

/// Returns the signed bytes. Neither name nor header has a line break, so no other three parts give these.
fn signed(name: &str, header: &str, content: &[u8]) -> Vec<u8> {
    [name.as_bytes(), b"\n", header.as_bytes(), b"\n", content].concat()
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "an-old-key-of-forty-characters-or-so-0123";

    /// Reaches `state_keys::MAX_KEYS`.
    #[test]
    fn files_without_keys_are_refused_and_no_error_or_debug_shows_one() {
        let nine = [KEY; 9].join("\n");
        for text in ["", "unsigned", "too-short-for-a-key", &nine, &format!("{KEY}\nshort")] {
            let error = StateKeys::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("a file of state keys has 1 to 8 lines") && !error.contains("short"), "{error}");
        }
        assert_eq!(format!("{:?}", StateKeys::parse(KEY).unwrap()), "1 state keys");
    }
}
