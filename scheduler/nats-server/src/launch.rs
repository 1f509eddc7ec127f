//! What it takes to run a server, and each run of it. A restart runs the same launch again.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::binary::Binary;
use crate::directory::Directory;
use crate::guard::Guard;
use crate::listener::Listener;
use crate::options::{Configuration, Login, Options};
use crate::running::Running;
use crate::start_error::{START_BOUND, StartError};
use crate::store_lock::StoreLock;
use crate::tail;

/// The interval of checks on a starting server: a fraction of its start time.
const START_POLL: Duration = Duration::from_millis(2);
/// How the system says that a port is taken.
const TAKEN: &str = "address already in use";
/// The environment variable with the folder of the store, for configuration files.
const STORE: &str = "NATS_STORE";
/// The configuration of a server that acknowledges nothing before it is on disk.
const SYNC_ALWAYS: &str = "jetstream { store_dir: $NATS_STORE, sync_interval: always }\n";

/// Everything that is needed to run the same server again.
#[derive(Debug)]
pub(crate) struct Launch {
    program: PathBuf,
    store: PathBuf,
    configuration: Option<PathBuf>,
    /// Whether the configuration tells where the store is.
    configures_store: bool,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    outlives_interrupt: bool,
    directory: Directory,
}

impl Launch {
    /// Prepares the folder of the server; runs nothing yet.
    pub(crate) fn new(binary: &Binary, options: Options) -> io::Result<Self> {
        let directory = Directory::new()?;
        let login = options.login.as_ref().map(Login::block).unwrap_or_default();
        let configures_store = options.configuration != Configuration::Plain;
        let configuration = match options.configuration {
            Configuration::Plain if login.is_empty() => None,
            Configuration::Plain => Some(directory.write_configuration(&login)?),
            Configuration::SyncAlways => Some(directory.write_configuration(&format!("{SYNC_ALWAYS}{login}"))?),
            Configuration::File(path) => Some(path),
        };
        Ok(Self {
            program: binary.path().to_path_buf(),
            store: options.store.unwrap_or_else(|| directory.store()),
            configuration,
            configures_store,
            arguments: options.arguments,
            environment: options.environment,
            outlives_interrupt: options.outlives_interrupt,
            directory,
        })
    }

    /// Runs the server on `port` (0: any free one), and returns once it is ready. A child that is
    /// not returned is killed.
    pub(crate) async fn run(&self, port: u16) -> Result<Running, StartError> {
        let lock = StoreLock::take(&self.store).await?;
        let mut child = self.spawn(port, &lock).map_err(|error| self.lost(error))?;
        let process = child.id().expect("it was not waited for");
        let guard = Guard::of(process).map_err(|error| self.lost(error))?;
        lock.leave_to(process).map_err(StartError::Folder)?;
        match timeout(START_BOUND, self.ready(&mut child, port)).await {
            Ok(ready) => Ok(Running::new(child, ready?, guard)),
            Err(_elapsed) => Err(StartError::NotReady { log: self.log_tail() }),
        }
    }

    /// Where `JetStream` keeps its data.
    pub(crate) fn store(&self) -> &Path {
        &self.store
    }

    /// The end of the log of all runs.
    pub(crate) fn log_tail(&self) -> String {
        tail::of_file(&self.directory.log()).unwrap_or_else(|error| format!("(its log cannot be read: {error})"))
    }

    fn spawn(&self, port: u16, lock: &StoreLock) -> io::Result<Child> {
        self.directory.clear_ports()?;
        let log = self.directory.open_log()?;
        let mut command = Command::new(&self.program);
        command.args(["-a", "127.0.0.1", "-p", &port_argument(port)]);
        command.arg("-js").arg("--ports_file_dir").arg(self.directory.ports());
        if let Some(file) = &self.configuration {
            command.arg("-c").arg(file);
        }
        match self.configures_store {
            true => command.env(STORE, &self.store),
            false => command.arg("-sd").arg(&self.store),
        };
        command.args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if self.outlives_interrupt {
            command.process_group(0);
        }
        command.stdin(lock.inherited()?);
        command.stdout(log.try_clone()?).stderr(log);
        command.kill_on_drop(true).spawn()
    }

    async fn ready(&self, child: &mut Child, port: u16) -> Result<Listener, StartError> {
        loop {
            if let Some(listener) = Listener::read_from(&self.directory.ports()) {
                return Ok(listener);
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
        let program = self.program.clone();
        StartError::Process { program, source }
    }
}

/// The port as an argument: nats-server takes 0 for its default port, and -1 for any free one.
fn port_argument(port: u16) -> String {
    match port {
        0 => "-1".to_owned(),
        port => port.to_string(),
    }
}
