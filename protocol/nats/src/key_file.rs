//! Files with keys, certificates or credentials.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest file read, in bytes: a system's authorities fit, a mistaken disk image does not.
const MAX_BYTES: u64 = 1 << 20;

/// Why a file cannot be used. The message quotes nothing from the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("{} can't be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file lacks what it is for.
    #[error("{} has not {what}", path.display())]
    Lacks {
        /// The file.
        path: PathBuf,
        /// The missing part.
        what: &'static str,
    },
    /// The private key does not match the certificate.
    #[error("the key in {} is not that of the certificate in {}", key.display(), cert.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
}

impl KeyFileError {
    pub(crate) fn lacks(path: &Path, what: &'static str) -> Self {
        KeyFileError::Lacks { path: path.to_owned(), what }
    }
}

pub(crate) fn readable(path: &Path) -> Result<String, KeyFileError> {
    let text = bounded(path).and_then(|bytes| String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into()));
    text.map_err(|source| KeyFileError::Unreadable { path: path.to_owned(), source })
}

/// Reads the file at `path`, a mebibyte at most.
///
/// # Errors
/// If the file cannot be read or is larger.
pub fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A device tells no length, so the bytes are counted.
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        let why = format!("it has more than {MAX_BYTES} bytes; name a file with keys or certificates alone");
        return Err(io::Error::other(why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_mebibyte_is_read_and_a_longer_one_is_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(MAX_BYTES).unwrap();
        assert_eq!(readable(file.path()).unwrap().len(), 1_048_576);
        file.as_file().set_len(MAX_BYTES + 1).unwrap();
        let KeyFileError::Unreadable { source, .. } = readable(file.path()).unwrap_err() else { panic!() };
        let why = "it has more than 1048576 bytes; name a file with keys or certificates alone";
        assert_eq!(source.to_string(), why);
    }
}
