//! Files that last as long as a test.

use tempfile::NamedTempFile;

/// A file with this text. Dropping it deletes it.
pub fn file_with(text: impl AsRef<[u8]>) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}
