//! A server process that runs.

use std::io;
use std::process::ExitStatus;

use tokio::process::Child;

use crate::guard::Guard;
use crate::listener::Listener;

/// The process of a server that is ready, and what ends it with its owner. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) listener: Listener,
    /// `None` once the process is known to have ended, since its id may belong to another one.
    guard: Option<Guard>,
}

impl Running {
    pub(crate) fn new(child: Child, listener: Listener, guard: Guard) -> Self {
        Running { child, listener, guard: Some(guard) }
    }

    /// Waits until the process ends.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.guard = None;
        status
    }

    /// Kills the process, and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> io::Result<()> {
        self.child.start_kill()?;
        self.ended().await.map(drop)
    }
}
