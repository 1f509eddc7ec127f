//! Runs `python3`: its pip downloads a wheel, and its `zipfile` unpacks it.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::tail;

/// The longest run of `python3`: seven megabytes over a slow line, with pip's own retries.
const PYTHON_BOUND: Duration = Duration::from_secs(300);

/// Why a run of `python3` failed.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// There is no `python3` on the `PATH`, or it cannot be run.
    #[error("python3 cannot be run: {0}")]
    NotRunnable(io::Error),
    /// The module failed.
    #[error("python3 -m {module} failed:\n{tail}")]
    Failed {
        /// The module that was run: `pip` or `zipfile`.
        module: &'static str,
        /// The end of its output.
        tail: String,
    },
    /// The module ran for too long, and was killed.
    #[error("python3 -m {module} took more than {} s", PYTHON_BOUND.as_secs())]
    Slow {
        /// The module that was run: `pip` or `zipfile`.
        module: &'static str,
    },
}

/// Downloads what a requirements file pins. pip refuses files with other hashes.
pub(crate) async fn pip_download(requirements: &Path, into: &Path) -> Result<(), PythonError> {
    let strict = "download --no-input --disable-pip-version-check --no-deps --require-hashes --only-binary :all:";
    let arguments = strict.split(' ').map(OsStr::new);
    let files = ["-r".as_ref(), requirements.as_os_str(), "-d".as_ref(), into.as_os_str()];
    run("pip", arguments.chain(files)).await
}

/// Unpacks a zip archive, such as a wheel.
pub(crate) async fn unzip(archive: &Path, into: &Path) -> Result<(), PythonError> {
    run("zipfile", ["-e".as_ref(), archive.as_os_str(), into.as_os_str()]).await
}

async fn run<'a>(module: &'static str, arguments: impl IntoIterator<Item = &'a OsStr>) -> Result<(), PythonError> {
    let mut command = Command::new("python3");
    // `-m` would take a module from the current folder first. Before Python 3.11 it does so in any
    // case, and only root writes to this folder.
    command.env("PYTHONSAFEPATH", "1").current_dir("/");
    command.args(["-m", module]).args(arguments);
    match timeout(PYTHON_BOUND, command.stdin(Stdio::null()).kill_on_drop(true).output()).await {
        Ok(output) => judge(module, &output.map_err(PythonError::NotRunnable)?),
        Err(_elapsed) => Err(PythonError::Slow { module }),
    }
}

fn judge(module: &'static str, output: &Output) -> Result<(), PythonError> {
    if output.status.success() {
        return Ok(());
    }
    let tail = tail::of_output(output);
    Err(PythonError::Failed { module, tail })
}
