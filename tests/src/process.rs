//! The `rampmeter` command in a process of its own.

use crate::api::http;
use crate::patience::{until, within};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use rampmeter_nats_server::Server;
use std::process::{ExitStatus, Output, Stdio};
use tempfile::{NamedTempFile, TempDir};
use tokio::process::{Child, Command};

/// Where the command is; tests give `env!("CARGO_BIN_EXE_rampmeter-under-test")`.
pub type Program = &'static str;

/// Runs `program` with `arguments` to its end.
///
/// # Panics
/// If it can't be run.
pub async fn run(program: Program, arguments: &[&str]) -> Output {
    let output = plain(program).args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
    within("a command ends", output).await.unwrap()
}

/// Settings of whoever runs the tests are none of theirs.
fn plain(program: Program) -> Command {
    let mut command = Command::new(program);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("RAMPMETER_") {
            command.env_remove(variable);
        }
    }
    command
}

/// A running `rampmeter serve`. Dropping it kills it.
pub struct Process {
    child: Child,
    folder: TempDir,
    log: NamedTempFile,
}

impl Process {
    /// Starts a scheduler of `resources`, and waits until it is ready.
    ///
    /// # Panics
    /// If it does not get so far; the message has its log.
    pub async fn start(program: Program, nats: &Server, resources: &str) -> Self {
        Self::start_with(program, &crate::scheduler::configuration(nats.url(), resources), &[]).await
    }

    /// Starts a scheduler with this configuration and these arguments beside it, and waits until it is ready.
    ///
    /// # Panics
    /// If it does not get so far; the message has its log.
    pub async fn start_with(program: Program, configuration: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("rampmeter.toml");
        std::fs::write(&config, configuration).unwrap();
        let log = NamedTempFile::new_in(folder.path()).unwrap();
        let mut command = plain(program);
        command.args(["--log-format", "json", "serve", "--config"]).arg(&config).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.reopen().unwrap());
        let mut process = Process { child: command.kill_on_drop(true).spawn().unwrap(), folder, log };
        process.until_ready().await;
        process
    }

    /// What it has logged.
    ///
    /// # Panics
    /// If that can't be read.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    /// Where it serves HTTP; none before it says so.
    #[must_use]
    pub fn http(&self) -> Option<String> {
        let log = self.log();
        let (_, after) = log.split_once("health and metrics at ")?;
        after.split_once("/metrics").map(|(url, _)| url.to_owned())
    }

    /// Asks it to stop, as a service manager does.
    ///
    /// # Panics
    /// If it has ended already.
    pub fn terminate(&self) {
        let pid = i32::try_from(self.child.id().expect("it runs")).unwrap();
        signal::kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn ended(&mut self) -> ExitStatus {
        within("the process ends", self.child.wait()).await.unwrap()
    }

    /// Asks it to stop, waits, and sees to it that the folder outlives the process.
    ///
    /// # Panics
    /// If it does not end well.
    pub async fn stop(mut self) {
        self.terminate();
        let status = self.ended().await;
        assert!(status.success(), "{status}\n{}", self.log());
        self.folder.close().unwrap();
    }

    async fn until_ready(&mut self) {
        until("a scheduler process is ready", async || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the scheduler process ended: {status}\n{}", self.log());
            }
            let ready = http().get(format!("{}/readyz", self.http()?)).send().await.ok()?;
            ready.status().is_success().then_some(())
        })
        .await;
    }
}
