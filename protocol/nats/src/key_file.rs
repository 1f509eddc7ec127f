//! Files with keys, certificates or credentials.

use std::io;
use std::path::{Path, PathBuf};

/// The largest file that is read, in bytes. All authorities of a system fit in; a disk image that
/// is named by mistake does not.
const MAX_BYTES: u64 = 1 << 20;

/// Why a file is of no use. The text quotes nothing from the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file can't be read.
    #[error("{} can't be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not what it should be.
    #[error("{} has not {what}", path.display())]
    Lacks {
        /// The file.
        path: PathBuf,
        /// What it should have.
        what: &'static str,
    },
    /// A private key is not that of the certificate beside it.
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

/// The text of the file at `path`.
pub(crate) fn readable(path: &Path) -> Result<String, KeyFileError> {
    let unreadable = |source| KeyFileError::Unreadable { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > MAX_BYTES {
        return Err(unreadable(io::Error::other(format!("it has {length} bytes; {MAX_BYTES} are read at most"))));
    }
    std::fs::read_to_string(path).map_err(unreadable)
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
        assert_eq!(source.to_string(), "it has 1048577 bytes; 1048576 are read at most");
    }
}
