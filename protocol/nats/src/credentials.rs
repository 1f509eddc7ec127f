//! NATS users that log in with a key instead of a password.

use crate::key_file::{KeyFileError, readable};
use async_nats::ConnectOptions;
use std::path::Path;

const SEED_LENGTH: usize = 58;
const USER_SEED: &str = "SU";

/// Adds the user of a credentials file as `nsc` writes it, with JWT and seed. It is read once.
///
/// # Errors
/// If the file cannot be read or is not a credentials file.
pub fn with_credentials_file(options: ConnectOptions, file: &Path) -> Result<ConnectOptions, KeyFileError> {
    let text = readable(file)?;
    options.credentials(&text).map_err(|_| KeyFileError::lacks(file, "the JWT and the seed of a NATS user"))
}

/// Adds the user whose seed is in `file`, as `nk -gen user` writes it. The file is read once.
///
/// # Errors
/// If the file cannot be read or contains no user seed.
pub fn with_nkey_file(options: ConnectOptions, file: &Path) -> Result<ConnectOptions, KeyFileError> {
    let text = readable(file)?;
    let seed = text.lines().map(str::trim).find(|line| is_seed(line));
    Ok(options.nkey(
        seed.ok_or_else(|| KeyFileError::lacks(file, "the seed of a NATS user, which begins with SU"))?.to_owned(),
    ))
}

/// Returns whether the line has the form of a user seed, which is in base 32.
fn is_seed(line: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte);
    line.starts_with(USER_SEED) && line.len() == SEED_LENGTH && line.bytes().all(is_digit)
}
