//! Why a server did not start.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::tail;

/// The longest wait for a server to be ready. It is ready within 10 ms; the bound is for a machine
/// under full load and a large store to recover.
pub(crate) const START_BOUND: Duration = Duration::from_secs(30);

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its folder or a file in it could not be made.
    #[error("cannot make a folder for nats-server")]
    Folder(#[source] io::Error),
    /// The running server could not be stopped before its restart.
    #[error("cannot stop the nats-server that is to be restarted")]
    Stop(#[source] io::Error),
    /// The system could not run the server, or does not know its status any more.
    #[error("cannot run {}", program.display())]
    Process {
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another server keeps its data in the same folder.
    #[error("the folder {} is in use by a nats-server that runs (process {process})", store.display())]
    InUse {
        /// The folder.
        store: PathBuf,
        /// The process id of that server.
        process: String,
    },
    /// Another program listens on its port.
    #[error("port {port} on 127.0.0.1 is taken by another program")]
    PortTaken {
        /// The port.
        port: u16,
        /// The end of the server's log.
        log: String,
    },
    /// It ended before it was ready, for example because of a fault in its configuration.
    #[error("nats-server ended before it was ready ({status}): {}", tail::last_complaint(log))]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// It did not become ready in time, and was killed.
    #[error("nats-server was not ready within {} s: {}", START_BOUND.as_secs(), tail::last_complaint(log))]
    NotReady {
        /// The end of its log.
        log: String,
    },
}

impl StartError {
    /// The end of the server's log, if it ran.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        match self {
            StartError::PortTaken { log, .. } | StartError::Ended { log, .. } | StartError::NotReady { log } => {
                Some(log)
            }
            StartError::Folder(_) | StartError::Stop(_) | StartError::Process { .. } | StartError::InUse { .. } => None,
        }
    }
}
