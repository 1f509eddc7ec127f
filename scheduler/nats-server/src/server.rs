use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::time::timeout;

use crate::binary::Binary;
use crate::launch::{Launch, StartError};
use crate::listener::Listener;
use crate::options::Options;

/// A server stops within milliseconds; one that does not is killed.
const STOP_BOUND: Duration = Duration::from_secs(5);

/// A nats-server with `JetStream` that runs as a child process and listens on 127.0.0.1 only.
///
/// Dropping it kills the process. So it dies with its owner when the owner returns, panics or stops
/// its runtime, but *not* when the owner is killed by a signal: a parent-death signal needs unsafe
/// code, which this workspace forbids. After an abort or a `kill -9` of the owner the server stays
/// behind.
#[derive(Debug)]
pub struct Server {
    // Before the launch: the process is killed, then its folder removed.
    child: Child,
    listener: Listener,
    launch: Launch,
}

impl Server {
    /// Runs `binary` until it is ready for clients.
    ///
    /// # Errors
    /// [`StartError`], with the end of the server's log when it ran at all.
    pub async fn start(binary: &Binary, options: Options) -> Result<Self, StartError> {
        let port = options.port;
        let launch = Launch::new(binary, options).map_err(StartError::Folder)?;
        let (child, listener) = launch.run(port).await?;
        Ok(Self { child, listener, launch })
    }

    /// Where clients connect to: `nats://127.0.0.1:<port>`. The same for the whole life of this
    /// value.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.listener.url
    }

    /// The port on 127.0.0.1. The same for the whole life of this value.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.listener.port
    }

    /// Where the server tells of itself over HTTP, as in `http://127.0.0.1:<port>`; `None` when it
    /// was not told to. Another after a restart, unless its port was given.
    #[must_use]
    pub fn monitor(&self) -> Option<&str> {
        self.listener.monitor.as_deref()
    }

    /// The process id; `None` once the process is known to have ended.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Where `JetStream` keeps its data.
    #[must_use]
    pub fn store(&self) -> &Path {
        self.launch.store()
    }

    /// The end of the server's log, over restarts.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.launch.log_tail()
    }

    /// Waits until the process has ended by itself, and tells how.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Kills the process (SIGKILL) and waits until it is gone; nothing to do when it is.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self) -> io::Result<()> {
        match self.pid() {
            Some(_running) => self.child.kill().await,
            None => Ok(()),
        }
    }

    /// Asks the process to stop (SIGTERM), paused or not, and waits until it is gone; kills it when
    /// that takes more than a few seconds. Nothing to do when it is gone already.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn stop(&mut self) -> io::Result<()> {
        if self.pid().is_some() {
            self.signal(Signal::SIGTERM)?;
            self.resume()?;
        }
        match timeout(STOP_BOUND, self.child.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_elapsed) => self.kill().await,
        }
    }

    /// Runs the server again on the same port and the same store, after a stop when it is running.
    ///
    /// The port is free in between: should another process take it, the error tells so.
    ///
    /// # Errors
    /// [`StartError`]; the server is then stopped, and can be restarted once more.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        self.stop().await.map_err(StartError::Stop)?;
        (self.child, self.listener) = self.launch.run(self.port()).await?;
        Ok(())
    }

    /// Freezes the process (SIGSTOP): connections stay open, and nothing answers from the return
    /// on.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn pause(&self) -> io::Result<()> {
        self.signal(Signal::SIGSTOP)?;
        // The signal is on its way for a moment, and each thread stops for itself. An end is left
        // for others to see.
        waitid(Id::Pid(self.process()?), WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
        Ok(())
    }

    /// Lets a paused process go on (SIGCONT).
    ///
    /// # Errors
    /// When the process is gone.
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(signal::kill(self.process()?, signal)?)
    }

    /// The id cannot be that of a stranger: the system gives it away only after the child was
    /// waited for.
    fn process(&self) -> io::Result<Pid> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "nats-server has ended");
        let pid = i32::try_from(self.pid().ok_or_else(gone)?).map_err(io::Error::other)?;
        Ok(Pid::from_raw(pid))
    }
}
