use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::tail;
use crate::version::Version;

/// A server tells its version in milliseconds; this is for a machine under full load, or a wrapper
/// that hangs.
const VERSION_BOUND: Duration = Duration::from_secs(20);

/// A nats-server that has told its version and is new enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    path: PathBuf,
    version: Version,
}

impl Binary {
    /// Takes the one at `path`, after asking for its version.
    ///
    /// # Errors
    /// [`Unfit`] when it cannot be run, is no nats-server, or is older than [`Version::OLDEST`].
    pub async fn at(path: impl Into<PathBuf>) -> Result<Self, Unfit> {
        let path = path.into();
        match version_of(&path).await {
            Ok(version) => Ok(Self { path, version }),
            Err(fault) => Err(Unfit { path, fault }),
        }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version it told.
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
    /// It ran, but printed no version in time.
    #[error("did not tell its version within {} s", VERSION_BOUND.as_secs())]
    Silent,
    /// It printed something else; the end of that is kept.
    #[error("did not tell its version but {0:?}")]
    NoVersion(String),
    /// It is a nats-server of the past.
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
