//! The handle of a server: start, stop, restart, pause and kill, all of which fault tests need.

use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::time::{sleep, timeout};

use crate::binary::Binary;
use crate::clean_stop;
use crate::options::Options;
use crate::process::{Launch, Running, StartError};

/// Timeout of a stop, which takes milliseconds, before the server is killed.
const STOP_BOUND: Duration = Duration::from_secs(5);

/// How long a restart waits for its port, which a connection of another process may use meanwhile.
const PORT_BOUND: Duration = Duration::from_secs(10);

const PORT_POLL: Duration = Duration::from_millis(200);

/// A nats-server with `JetStream` that runs as a child process and listens on 127.0.0.1 only. Dropping it kills the
/// process, and so does any end of its owner, even by `kill -9`. It keeps its store locked while it lives: no other
/// [`Server`] starts there.
#[derive(Debug)]
pub struct Server {
    // This field precedes `launch`, so that the process is killed before its folder is removed.
    running: Running,
    launch: Launch,
}

impl Server {
    /// Starts `binary`, and returns once it is ready for clients.
    ///
    /// # Errors
    /// [`StartError`], with the end of the server's log if it ran.
    pub async fn start(binary: &Binary, options: Options) -> Result<Self, StartError> {
        let port = options.port;
        let launch = Launch::new(binary, options).map_err(StartError::Folder)?;
        let running = launch.run(port).await?;
        Ok(Self { running, launch })
    }

    /// Returns the address for clients, `nats://127.0.0.1:<port>`, which never changes.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.running.addresses.url
    }

    /// Returns the port on 127.0.0.1, which never changes.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.running.addresses.port
    }

    /// Returns the URL of HTTP monitoring, if enabled; without a given port, restarts change it.
    #[must_use]
    pub fn monitor(&self) -> Option<&str> {
        self.running.addresses.monitor.as_deref()
    }

    /// Returns the process id; `None` once the process is known to have ended.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running.child.id()
    }

    /// Returns the folder of `JetStream`'s data.
    #[must_use]
    pub fn store(&self) -> &Path {
        &self.launch.store
    }

    /// Returns the end of the server's log, which continues over restarts.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.launch.log_tail()
    }

    /// Waits until the process ends, and returns its status.
    ///
    /// # Errors
    /// If the system does not know the status.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.running.child.wait().await;
        self.running.guard = None;
        status
    }

    /// Kills the process (SIGKILL) if it runs, and waits until it is gone.
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn kill(&mut self) -> io::Result<()> {
        if self.pid().is_some() {
            self.running.child.start_kill()?;
            self.ended().await?;
        }
        Ok(())
    }

    /// Asks the process to stop (SIGTERM), paused or not, waits until it is gone, and kills it after a few seconds.
    /// Does nothing if it is already gone. A server that has ended by itself leaves a mark for the next one in its
    /// store, if it has a [name to keep](Options::name_prefix).
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn stop(&mut self) -> io::Result<()> {
        let name = if self.pid().is_some() { self.running.name.take() } else { None };
        if self.pid().is_some() {
            self.signal(Signal::SIGTERM)?;
            self.resume()?;
        }
        match timeout(STOP_BOUND, self.ended()).await {
            Ok(ended) => {
                if let (Some(_), Some(name)) = (ended?.code(), name) {
                    clean_stop::leave(&self.launch.store, &name).await.ok();
                }
                Ok(())
            }
            Err(_elapsed) => self.kill().await,
        }
    }

    /// Runs the server again on the same port and store, stopping it first if it runs. The port is free in between: the
    /// restart fails if another process keeps it for ten seconds.
    ///
    /// # Errors
    /// [`StartError`]. The server is then stopped, and can be restarted again.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        self.stop().await.map_err(StartError::Stop)?;
        let mut tries = PORT_BOUND.as_millis() / PORT_POLL.as_millis();
        loop {
            match self.launch.run(self.port()).await {
                Err(StartError::PortTaken { .. }) if tries > 0 => sleep(PORT_POLL).await,
                run => break self.running = run?,
            }
            tries -= 1;
        }
        Ok(())
    }

    /// Freezes the process (SIGSTOP). Connections stay open, but get no more responses.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn pause(&self) -> io::Result<()> {
        self.signal(Signal::SIGSTOP)?;
        // Each thread stops by itself. `WNOWAIT` leaves an exit status for other callers.
        waitid(Id::Pid(self.process()?), WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
        Ok(())
    }

    /// Resumes a paused process (SIGCONT).
    ///
    /// # Errors
    /// If the process is gone.
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(signal::kill(self.process()?, signal)?)
    }

    /// Returns the process id, which is not reused before the child has been waited for.
    fn process(&self) -> io::Result<Pid> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "nats-server has ended");
        let pid = i32::try_from(self.pid().ok_or_else(gone)?).map_err(io::Error::other)?;
        Ok(Pid::from_raw(pid))
    }
}
