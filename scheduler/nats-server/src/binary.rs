//! A nats-server binary and its version. Only a checked one can be started.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::tail;
use crate::version::Version;

/// The longest wait for the version. A server prints it in milliseconds; the bound is for a machine
/// under full load, or a wrapper that hangs.
const VERSION_BOUND: Duration = Duration::from_secs(20);

/// A nats-server that has printed its version and is new enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    path: PathBuf,
    version: Version,
}

impl Binary {
    /// Runs the file at `path` with `--version`, and accepts it if it is new enough.
    ///
    /// # Errors
    /// [`Unfit`] if it cannot be run, is no nats-server, or is older than [`Version::OLDEST`].
    pub async fn at(path: impl Into<PathBuf>) -> Result<Self, Unfit> {
        let path = path.into();
        match version_of(&path).await {
            Ok(version) => Ok(Self { path, version }),
            Err(fault) => Err(Unfit { path, fault }),
        }
    }

    /// The path of the binary.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version that the binary printed.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The same binary at another path.
    pub(crate) fn moved_to(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }
}

/// A file that cannot serve as nats-server, and why.
#[derive(Debug, thiserror::Error)]
#[error("{} {fault}", path.display())]
pub struct Unfit {
    /// The file that was tried.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a file that should be a nats-server.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system could not run it.
    #[error("cannot be run: {0}")]
    NotRunnable(io::Error),
    /// The file ran, but printed no version in time.
    #[error("printed no version within {} s", VERSION_BOUND.as_secs())]
    Silent,
    /// It printed something else. The text is the end of its output.
    #[error("printed no version, but {0:?}")]
    NoVersion(String),
    /// The file is a nats-server that is too old.
    #[error("is version {0}, older than {oldest}", oldest = Version::OLDEST)]
    TooOld(Version),
}

async fn version_of(path: &Path) -> Result<Version, Fault> {
    let output = version_output(path).await?;
    let text = String::from_utf8_lossy(&output.stdout);
    match Version::in_output(&text) {
        Some(version) if version >= Version::OLDEST => Ok(version),
        Some(version) => Err(Fault::TooOld(version)),
        None => Err(Fault::NoVersion(tail::of_output(&output))),
    }
}

async fn version_output(path: &Path) -> Result<Output, Fault> {
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).kill_on_drop(true).output();
    match timeout(VERSION_BOUND, output).await {
        Ok(output) => output.map_err(Fault::NotRunnable),
        Err(_elapsed) => Err(Fault::Silent),
    }
}
