//! The sources of secrets.

use secrecy::SecretString;
use std::fmt;
use std::path::{Path, PathBuf};

/// The longest secret that is read, in bytes: many PEM keys, but few files given by mistake.
const MAX_SECRET: u64 = 64 * 1024;

/// Where a secret is kept. It is read at each use, so that a replaced one counts; the configuration never holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// In the environment variable of this name.
    Env(String),
    /// In this file.
    File(PathBuf),
}

impl SecretSource {
    /// Reads the secret, without the newline that ends a file.
    ///
    /// # Errors
    /// Why there is no secret. The text contains no part of it.
    pub fn read(&self) -> Result<SecretString, String> {
        let text = match self {
            SecretSource::Env(name) => std::env::var(name).map_err(|error| match error {
                std::env::VarError::NotPresent => format!("{self} is not set"),
                std::env::VarError::NotUnicode(_) => format!("{self} is not UTF-8"),
            })?,
            SecretSource::File(path) => self.read_file(path)?,
        };
        let secret = text.trim_end_matches(['\r', '\n']);
        if secret.is_empty() {
            return Err(format!("{self} is empty"));
        }
        Ok(SecretString::from(secret))
    }

    fn read_file(&self, path: &Path) -> Result<String, String> {
        let cannot = |error: std::io::Error| format!("{self} can't be read: {error}");
        let length = std::fs::metadata(path).map_err(cannot)?.len();
        if length > MAX_SECRET {
            return Err(format!("{self} has {length} bytes; a secret has {MAX_SECRET} at most"));
        }
        std::fs::read_to_string(path).map_err(cannot)
    }

    /// Returns whether every user of this machine may read the secret.
    #[cfg(unix)]
    #[must_use]
    pub fn is_open_to_all(&self) -> bool {
        use std::os::unix::fs::PermissionsExt;
        match self {
            SecretSource::Env(_) => false,
            SecretSource::File(path) => {
                std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o004 != 0)
            }
        }
    }

    /// Returns false, as this system does not show whether every user may read the secret.
    #[cfg(not(unix))]
    #[must_use]
    pub fn is_open_to_all(&self) -> bool {
        false
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretSource::Env(name) => write!(f, "the environment variable `{name}`"),
            SecretSource::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;
    use std::os::unix::fs::PermissionsExt;

    fn read(content: &[u8]) -> Result<String, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        let source = SecretSource::File(file.path().to_owned());
        source.read().map(|secret| secret.expose_secret().to_owned())
    }

    /// Reaches `secret::MAX_SECRET`.
    #[test]
    fn a_file_holds_a_secret_and_perhaps_a_newline() {
        let long = vec![b'x'; 64 * 1024 + 1];
        #[rustfmt::skip]
        let table: [(&[u8], Result<&str, &str>); 8] = [
            (b"canary",         Ok("canary")),
            (b"canary\n",       Ok("canary")),
            (b"canary\r\n",     Ok("canary")),
            (b" can ary \n",    Ok(" can ary ")),
            (b"",               Err("is empty")),
            (b"\n",             Err("is empty")),
            (b"canary\xff",     Err("can't be read: stream did not contain valid UTF-8")),
            (&long,             Err("has 65537 bytes; a secret has 65536 at most")),
        ];
        for (content, expected) in table {
            match (read(content), expected) {
                (Ok(secret), Ok(expected)) => assert_eq!(secret, expected),
                (Err(error), Err(expected)) => {
                    assert!(error.ends_with(expected) && !error.contains("canary"), "{error}");
                }
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn a_missing_secret_is_named() {
        let nowhere = SecretSource::File("/nowhere/secret".into());
        assert!(nowhere.read().unwrap_err().starts_with("the file /nowhere/secret can't be read: "));
        let unset = SecretSource::Env("RAMPMETER_NEVER_SET".to_owned());
        let expected = "the environment variable `RAMPMETER_NEVER_SET` is not set";
        assert_eq!(unset.read().unwrap_err(), expected);
    }

    #[test]
    fn a_file_that_every_user_may_read_is_noticed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let source = SecretSource::File(file.path().to_owned());
        for (mode, open) in [(0o600, false), (0o640, false), (0o644, true), (0o604, true)] {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(source.is_open_to_all(), open, "{mode:o}");
        }
    }
}
