//! Files that are read again when they change.

use rampmeter_protocol::time::{Span, Time};
use std::path::PathBuf;
use std::time::SystemTime;

/// How often the files are looked at.
const LOOK: Span = Span::from_secs(1);

/// The times at which files were written, as of the last look.
#[derive(Debug)]
pub(crate) struct WatchedFiles {
    paths: Vec<PathBuf>,
    written: Vec<Option<SystemTime>>,
    looked: Time,
}

impl WatchedFiles {
    /// Watches these files, which are to be read after this call.
    pub(crate) fn new(paths: Vec<PathBuf>, now: Time) -> Self {
        let written = written(&paths);
        WatchedFiles { paths, written, looked: now }
    }

    /// Whether a file has changed since the last look. The files are looked at once a second at
    /// most.
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
