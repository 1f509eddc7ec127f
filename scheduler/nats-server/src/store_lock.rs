//! One folder of `JetStream`'s data has one server at a time.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

use crate::start_error::StartError;

/// The file in the store that its server keeps locked.
const FILE: &str = "nats-server.lock";
/// How long an ending server may take: it ends within milliseconds of its owner.
const ENDING: Duration = Duration::from_secs(5);
/// The interval of tries: a fraction of the time that a server takes to end.
const POLL: Duration = Duration::from_millis(20);

/// The lock of a store, for the server that is about to run there.
///
/// The lock belongs to the open file. The server inherits it as its standard input. It therefore
/// holds the lock exactly as long as it lives, whatever becomes of its owner.
#[derive(Debug)]
pub(crate) struct StoreLock(File);

impl StoreLock {
    /// Locks the store, which is made if it does not exist. Waits for a server that is ending.
    pub(crate) async fn take(store: &Path) -> Result<Self, StartError> {
        let mut file = open(store).map_err(StartError::Folder)?;
        for _ in 0..ENDING.as_millis() / POLL.as_millis() {
            match file.try_lock() {
                Ok(()) => return Ok(StoreLock(file)),
                Err(TryLockError::WouldBlock) => sleep(POLL).await,
                Err(TryLockError::Error(error)) => return Err(StartError::Folder(error)),
            }
        }
        let mut process = String::new();
        file.read_to_string(&mut process).map_err(StartError::Folder)?;
        Err(StartError::InUse { store: store.to_path_buf(), process: process.trim().to_owned() })
    }

    /// The locked file, for the server to keep open.
    pub(crate) fn inherited(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Leaves the lock to the server with this process id.
    pub(crate) fn leave_to(mut self, process: u32) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        writeln!(self.0, "{process}")
    }
}

fn open(store: &Path) -> io::Result<File> {
    fs::create_dir_all(store)?;
    let file: PathBuf = store.join(FILE);
    File::options().read(true).write(true).create(true).truncate(false).open(file)
}
