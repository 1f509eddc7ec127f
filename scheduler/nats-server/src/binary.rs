//! A nats-server binary whose version was checked, as required to start it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// Timeout of `--version`, which takes milliseconds except under full load or if it hangs.
const VERSION_BOUND: Duration = Duration::from_secs(20);
/// The bytes kept of a process's output: some forty lines, an error with its context.
const TAIL_BYTES: usize = 4096;

/// A nats-server that has printed its version and is new enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    pub(crate) path: PathBuf,
    pub(crate) version: Version,
}

impl Binary {
    /// Runs the file at `path` with `--version`, and accepts it if it is new enough.
    ///
    /// # Errors
    /// If it cannot be run, is not a nats-server, or is older than [`Version::OLDEST`].
    pub async fn at(path: impl Into<PathBuf>) -> Result<Self, NoServer> {
        let path = path.into();
        match version_of(&path).await {
            Ok(version) => Ok(Self { path, version }),
            Err(fault) => Err(NoServer(format!("{} {fault}", path.display()))),
        }
    }

    /// Returns the path of the binary.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the version that the binary printed.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }
}

/// Why a file or a download is not a nats-server to run.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoServer(pub(crate) String);

async fn version_of(path: &Path) -> Result<Version, String> {
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).kill_on_drop(true).output();
    let silent = |_elapsed| format!("printed no version within {} s", VERSION_BOUND.as_secs());
    let output = timeout(VERSION_BOUND, output).await.map_err(silent)?;
    let output = output.map_err(|error| format!("cannot be run: {error}"))?;
    match Version::in_output(&String::from_utf8_lossy(&output.stdout)) {
        Some(version) if version >= Version::OLDEST => Ok(version),
        Some(version) => Err(format!("is version {version}, older than {}", Version::OLDEST)),
        None => Err(format!("printed no version, but {:?}", tail_of(&output))),
    }
}

/// Returns the end of a finished process's output: standard output, then standard error.
pub(crate) fn tail_of(output: &Output) -> String {
    tail(&[output.stdout.as_slice(), &output.stderr].concat())
}

pub(crate) fn tail_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(TAIL_BYTES as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    Ok(tail(&end))
}

fn tail(output: &[u8]) -> String {
    String::from_utf8_lossy(&output[output.len().saturating_sub(TAIL_BYTES)..]).trim().to_owned()
}

/// The version of a nats-server. A pre-release counts as its release: 2.12.0-RC.1 as 2.12.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u32; 3]);

impl Version {
    /// The oldest supported version, since older ones ignore message schedules and atomic batches.
    pub const OLDEST: Self = Self::new(2, 12, 0);

    /// Returns the version `major.minor.patch`.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self([major, minor, patch])
    }

    /// Finds the first version in the output of `nats-server --version`.
    pub(crate) fn in_output(output: &str) -> Option<Self> {
        output.split_whitespace().find_map(|word| {
            let number = word.strip_prefix('v').unwrap_or(word).split(['-', '+']).next()?;
            let parts: Option<Vec<u32>> = number.split('.').map(|part| part.parse().ok()).collect();
            Some(Self(parts?.try_into().ok()?))
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([major, minor, patch]) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_servers_print() {
        let table = [
            ("nats-server: v2.15.1\n", Some(Version::new(2, 15, 1))),
            ("nats-server: v2.9.10", Some(Version::new(2, 9, 10))),
            ("nats-server: v2.12.0-RC.4", Some(Version::new(2, 12, 0))),
            ("nats-server: v2.12.3+build.7", Some(Version::new(2, 12, 3))),
            ("nats-server version 2.0.0", Some(Version::new(2, 0, 0))),
            ("nats-server: v2.12", None),
            ("nats-server: v2.12.0.1", None),
            ("nats-server: v2.x.0", None),
            ("nats-server: v-2.12.0", None),
            ("command not found", None),
            ("", None),
        ];
        for (output, version) in table {
            assert_eq!(Version::in_output(output), version, "{output:?}");
        }
    }
}
