//! A run of nats-server: its private folder, addresses, store lock, and the guard that ends it with its owner.

use crate::binary::{Binary, tail_of_file};
use crate::clean_stop;
use crate::options::Options;
use serde_json::Value;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Longest start of a server: usually 10 ms, but more under full load or with a large store.
const START_BOUND: Duration = Duration::from_secs(30);
/// Interval of checks on a starting server, a fraction of its start time.
const START_POLL: Duration = Duration::from_millis(2);
/// How long a stopping server may keep its store: it ends within milliseconds of its owner.
const ENDING_BOUND: Duration = Duration::from_secs(5);
/// Interval of attempts, a fraction of the time that a server takes to end.
const ENDING_POLL: Duration = Duration::from_millis(20);
const TAKEN: &str = "address already in use";
/// The environment variable with the folder of the store, for configuration files.
const STORE: &str = "NATS_STORE";
/// Ends the server, resumed if paused, at the end of standard input, which only the owner holds open.
const GUARD: &str = r#"read -r _; kill "$1"; kill -CONT "$1""#;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its folder or a file in it could not be created.
    #[error("cannot make a folder for nats-server")]
    Folder(#[source] io::Error),
    /// The running server could not be stopped before its restart.
    #[error("cannot stop the nats-server that is to be restarted")]
    Stop(#[source] io::Error),
    /// The system could not run the server, or no longer knows its status.
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
    #[error("nats-server ended before it was ready ({status}): {}", last_complaint(log))]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// It did not become ready in time, and was killed.
    #[error("nats-server was not ready within {} s: {}", START_BOUND.as_secs(), last_complaint(log))]
    NotReady {
        /// The end of its log.
        log: String,
    },
}

impl StartError {
    /// Returns the end of the server's log, if it ran.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::PortTaken { log, .. } | Self::Ended { log, .. } | Self::NotReady { log } => Some(log),
            Self::Folder(_) | Self::Stop(_) | Self::Process { .. } | Self::InUse { .. } => None,
        }
    }
}

/// Returns the last complaint in a nats-server's log, without its time, or else the last line.
fn last_complaint(log: &str) -> &str {
    let complaint = |line| ["[FTL] ", "[ERR] "].iter().find_map(|level| Some(str::split_once(line, level)?.1));
    let last_line = log.lines().rfind(|line| !line.trim().is_empty());
    log.lines().rev().find_map(complaint).or(last_line).unwrap_or("its log is empty")
}

#[derive(Debug)]
pub(crate) struct Launch {
    program: PathBuf,
    options: Options,
    pub(crate) store: PathBuf,
    configuration: Option<PathBuf>,
    /// The server's private folder, removed with it: log, ports, configuration, default store.
    folder: TempDir,
}

impl Launch {
    /// Prepares the server's folder without running anything.
    pub(crate) fn new(binary: &Binary, options: Options) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nats-server-").tempdir()?;
        let own = folder.path().join("nats.conf");
        let configuration = match (&options.configuration, &options.login) {
            (Some(path), _) => Some(path.clone()),
            (None, Some(login)) => Some(fs::write(&own, login.block()).map(|()| own)?),
            (None, None) => None,
        };
        let store = options.store.clone().unwrap_or_else(|| folder.path().join("store"));
        Ok(Self { program: binary.path().to_path_buf(), options, store, configuration, folder })
    }

    /// Starts the server on `port` (0 for any free one). A child that does not get ready is killed.
    pub(crate) async fn run(&self, port: u16) -> Result<Running, StartError> {
        let lock = StoreLock::take(&self.store).await?;
        let name = self.options.name_prefix.map(|prefix| clean_stop::name(&self.store, prefix));
        let mut child = self.spawn(port, name.as_deref(), &lock).map_err(|error| self.lost(error))?;
        let process = child.id().expect("it was not waited for");
        let guard = guard(process).map_err(|error| self.lost(error))?;
        lock.leave_to(process).map_err(StartError::Folder)?;
        match timeout(START_BOUND, self.ready(&mut child, port)).await {
            Ok(addresses) => Ok(Running { child, addresses: addresses?, guard: Some(guard), name }),
            Err(_elapsed) => Err(StartError::NotReady { log: self.log_tail() }),
        }
    }

    pub(crate) fn log_tail(&self) -> String {
        tail_of_file(&self.log()).unwrap_or_else(|error| format!("(its log cannot be read: {error})"))
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn spawn(&self, port: u16, name: Option<&str>, lock: &StoreLock) -> io::Result<Child> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = Command::new(&self.program);
        // nats-server takes 0 for its default port, and -1 for any free one.
        let port = if port == 0 { "-1".to_owned() } else { port.to_string() };
        command.args(["-a", "127.0.0.1", "-p", &port, "-js"]);
        command.arg("--ports_file_dir").arg(self.empty_ports_folder()?);
        if let Some(file) = &self.configuration {
            command.arg("-c").arg(file);
        }
        // A server refuses a store both in its configuration and as an argument.
        match self.options.configuration {
            None => command.arg("-sd").arg(&self.store),
            Some(_) => command.env(STORE, &self.store),
        };
        command.args(name.into_iter().flat_map(|name| ["--name", name]));
        command.args(&self.options.arguments);
        command.envs(self.options.environment.iter().map(|(name, value)| (name, value)));
        if self.options.outlives_interrupt {
            command.process_group(0);
        }
        command.stdin(lock.0.try_clone()?).stdout(log.try_clone()?).stderr(log);
        command.kill_on_drop(true).spawn()
    }

    /// Empties and returns the folder of the addresses, in which a killed server leaves its file.
    fn empty_ports_folder(&self) -> io::Result<PathBuf> {
        let ports = self.ports();
        if ports.exists() {
            fs::remove_dir_all(&ports)?;
        }
        fs::create_dir(&ports).map(|()| ports)
    }

    fn ports(&self) -> PathBuf {
        self.folder.path().join("ports")
    }

    async fn ready(&self, child: &mut Child, port: u16) -> Result<Addresses, StartError> {
        loop {
            if let Some(addresses) = Addresses::read_from(&self.ports()) {
                return Ok(addresses);
            }
            if let Some(status) = child.try_wait().map_err(|error| self.lost(error))? {
                let log = self.log_tail();
                return Err(match log.lines().last().is_some_and(|line| line.contains(TAKEN)) {
                    true => StartError::PortTaken { port, log },
                    false => StartError::Ended { status, log },
                });
            }
            sleep(START_POLL).await;
        }
    }

    fn lost(&self, source: io::Error) -> StartError {
        StartError::Process { program: self.program.clone(), source }
    }
}

/// The process of a server that is ready. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) addresses: Addresses,
    /// Ends the server if its owner dies first. `None` after its end, as its id may be reused.
    pub(crate) guard: Option<Child>,
    /// The server's name, if it may keep it over a clean stop.
    pub(crate) name: Option<String>,
}

/// Starts a process that ends the server with this id when its owner dies, in a process group that no Ctrl-C ends
/// first. Dropping it ends it and leaves the server alone. The system closes the owner's end of a pipe even after a
/// `kill -9`; a parent-death signal would need unsafe code, which this workspace forbids.
fn guard(server: u32) -> io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", GUARD, "nats-server-guard", &server.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).kill_on_drop(true).spawn()
}

/// The addresses of a running server, which it writes to a file once it is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) url: String,
    pub(crate) port: u16,
    /// The URL of HTTP monitoring, if enabled.
    pub(crate) monitor: Option<String>,
}

impl Addresses {
    /// Reads the one file of this folder; `None` until the server has written it.
    fn read_from(folder: &Path) -> Option<Self> {
        let file = fs::read_dir(folder).ok()?.next()?.ok()?;
        Self::parse(&fs::read_to_string(file.path()).ok()?)
    }

    /// Parses a ports file; `None` for half a file, which the server does not write atomically.
    fn parse(text: &str) -> Option<Self> {
        let file: Value = serde_json::from_str(text).ok()?;
        let first = |kind: &str| file[kind][0].as_str().map(str::to_owned);
        let url = first("nats")?;
        let port = url.rsplit_once(':')?.1.parse().ok()?;
        Some(Self { url, port, monitor: first("monitoring") })
    }
}

/// The lock of a store, which has one server at a time. The lock belongs to the open file, which the server inherits as
/// its standard input. The server therefore holds the lock exactly as long as it lives, whatever becomes of its owner.
#[derive(Debug)]
struct StoreLock(File);

impl StoreLock {
    /// Locks the store, creating it if needed. Waits for a server that is ending.
    async fn take(store: &Path) -> Result<Self, StartError> {
        let mut file = open_lock(store).map_err(StartError::Folder)?;
        for _ in 0..ENDING_BOUND.as_millis() / ENDING_POLL.as_millis() {
            match file.try_lock() {
                Ok(()) => return Ok(StoreLock(file)),
                Err(TryLockError::WouldBlock) => sleep(ENDING_POLL).await,
                Err(TryLockError::Error(error)) => return Err(StartError::Folder(error)),
            }
        }
        let mut process = String::new();
        file.read_to_string(&mut process).map_err(StartError::Folder)?;
        Err(StartError::InUse { store: store.to_path_buf(), process: process.trim().to_owned() })
    }

    /// Leaves the lock to the server with this process id.
    fn leave_to(mut self, process: u32) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        writeln!(self.0, "{process}")
    }
}

fn open_lock(store: &Path) -> io::Result<File> {
    // Only this user may read the state of a server.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(store)?;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).open(store.join("nats-server.lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_client_port_of_a_whole_file_counts() {
        let table = [
            (r#"{"nats":["nats://127.0.0.1:41197"],"monitoring":["http://127.0.0.1:1"]}"#, Some(41197)),
            (r#"{"nats":["tls://127.0.0.1:1","nats://127.0.0.1:2"]}"#, Some(1)),
            (r#"{"nats":["nats://127.0.0.1:411"#, None),
            (r#"{"nats":["nats://127.0.0.1:70000"]}"#, None),
            (r#"{"nats":[]}"#, None),
            ("", None),
        ];
        for (text, port) in table {
            assert_eq!(Addresses::parse(text).map(|addresses| addresses.port), port, "{text}");
        }
    }

    #[test]
    fn a_log_ends_with_a_complaint() {
        let fatal = "[7] 2026/01/02 03:04:05.6 [INF] Took 4ms\n[7] 2026/01/02 03:04:05.7 [FTL] no port\n";
        assert_eq!(last_complaint(fatal), "no port");
        assert_eq!(last_complaint("nats.conf:1:1: unknown field \"a\"\n\n"), "nats.conf:1:1: unknown field \"a\"");
        assert_eq!(last_complaint(""), "its log is empty");
    }
}
