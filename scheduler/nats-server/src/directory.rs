//! The private folder of one server, with its log, ports and configuration. Servers thus share no
//! file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The private folder of one server, removed with it: log, ports, configuration, and the store by
/// default.
#[derive(Debug)]
pub(crate) struct Directory {
    root: TempDir,
}

impl Directory {
    pub(crate) fn new() -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("nats-server-").tempdir()?;
        Ok(Self { root })
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path().join("store")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    /// The folder in which the server writes the ports that it listens on.
    pub(crate) fn ports(&self) -> PathBuf {
        self.path().join("ports")
    }

    /// Removes the ports file of an earlier run, which a killed server leaves behind.
    pub(crate) fn clear_ports(&self) -> io::Result<()> {
        let ports = self.ports();
        if ports.exists() {
            fs::remove_dir_all(&ports)?;
        }
        fs::create_dir(ports)
    }

    /// The log, opened for appending to the output of earlier runs.
    pub(crate) fn open_log(&self) -> io::Result<File> {
        File::options().create(true).append(true).open(self.log())
    }

    /// Writes a configuration for the server to read.
    pub(crate) fn write_configuration(&self, text: &str) -> io::Result<PathBuf> {
        let path = self.path().join("nats.conf");
        fs::write(&path, text)?;
        Ok(path)
    }

    fn path(&self) -> &Path {
        self.root.path()
    }
}
