//! Files that are read again when they change.

use rampmeter_protocol::time::{Span, Time};
use std::path::PathBuf;
use std::time::SystemTime;

/// How often the files are checked.
const LOOK: Span = Span::from_secs(1);

/// The modification times of files at the last check.
#[derive(Debug)]
pub(crate) struct WatchedFiles {
    paths: Vec<PathBuf>,
    written: Vec<Option<SystemTime>>,
    looked: Time,
}

impl WatchedFiles {
    /// Watches these files, which must be read only after this call.
    pub(crate) fn new(paths: Vec<PathBuf>, now: Time) -> Self {
        let written = written(&paths);
        WatchedFiles { paths, written, looked: now }
    }

    /// Returns whether a file has changed since the last check. Checks at most once a second.
    pub(crate) fn have_changed(&mut self, now: Time) -> bool {
        if now.since(self.looked) < LOOK {
            return false;
        }
        self.looked = now;
        let written = written(&self.paths);
        let have_changed = written != self.written;
        self.written = written;
        have_changed
    }
}

fn written(paths: &[PathBuf]) -> Vec<Option<SystemTime>> {
    paths.iter().map(|path| std::fs::metadata(path).and_then(|file| file.modified()).ok()).collect()
}
