//! The `rampmeter` command in a process of its own.

use crate::api::http;
use crate::patience::{until, within};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use rampmeter_nats_server::Server;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;
use tempfile::{NamedTempFile, TempDir};
use tokio::process::{Child, Command};

/// The path of the command; tests give `env!("CARGO_BIN_EXE_rampmeter-under-test")`.
pub type Program = &'static str;

/// Runs `program` with `arguments` to its end.
pub async fn run(program: Program, arguments: &[&str]) -> Output {
    run_in(program, arguments, &[]).await
}

/// Runs `program` with `arguments`: its exit code, what it prints, and what it complains of.
pub async fn said(program: Program, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(program, arguments).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Runs `program` with `arguments`, and returns what it prints.
///
/// # Errors
/// What it complains of, if it fails.
pub async fn printed(program: Program, arguments: &[&str]) -> Result<String, String> {
    match said(program, arguments).await {
        (Some(0), output, _) => Ok(output),
        (_, _, errors) => Err(errors),
    }
}

/// Runs `program` with `arguments` and these environment variables: its exit code, and what it prints and complains of.
pub async fn told(program: Program, arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = run_in(program, arguments, environment).await;
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Runs `program` with `arguments` and these environment variables to its end.
pub async fn run_in(program: Program, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = plain(program);
    command.args(arguments).envs(environment.iter().copied());
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    within("a command ends", output).await.unwrap()
}

/// The command, without the settings in the environment of the test run.
fn plain(program: Program) -> Command {
    let mut command = Command::new(program);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("RAMPMETER_") {
            command.env_remove(variable);
        }
    }
    command
}

/// How long a possibly frozen process has to answer.
const LOOK: Duration = Duration::from_millis(300);
/// Lines of its log that a failure shows.
const SHOWN_LINES: usize = 40;

/// A running `rampmeter serve` or `rampmeter proxy`. Dropping it kills it.
pub struct Process {
    child: Child,
    command: Command,
    // Declared before its folder, so it is dropped first.
    log: Log,
    folder: TempDir,
}

/// The output of a process. A failing test shows the end of it.
struct Log(NamedTempFile);

impl Log {
    fn read(&self) -> String {
        std::fs::read_to_string(self.0.path()).unwrap()
    }
}

impl Drop for Log {
    #[allow(clippy::print_stdout, reason = "only a failure shows it")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.read();
            let lines: Vec<&str> = log.lines().collect();
            println!("the log ends with:\n{}", lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n"));
        }
    }
}

/// The file with the configuration, in its folder.
const CONFIGURATION: &str = "rampmeter.toml";
/// The folder of a proxy's state, in its folder.
const DATA: &str = "data";

fn folder_and_log(configuration: &str) -> (TempDir, Log) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(CONFIGURATION), configuration).unwrap();
    let log = NamedTempFile::new_in(folder.path()).unwrap();
    (folder, Log(log))
}

fn serving(program: Program, folder: &TempDir) -> Command {
    let mut command = plain(program);
    command.args(["--log-format", "json", "serve", "--config"]).arg(folder.path().join(CONFIGURATION));
    command
}

impl Process {
    /// Starts a scheduler of `resources`, and waits until it is ready.
    ///
    /// # Panics
    /// If it does not become ready; the message has its log.
    pub async fn start(program: Program, nats: &Server, resources: &str) -> Self {
        Self::start_with(program, &crate::scheduler::configuration(nats.url(), resources), &[]).await
    }

    /// Starts a scheduler with this configuration and these additional arguments, and waits until
    /// it is ready.
    ///
    /// # Panics
    /// If it does not become ready; the message has its log.
    pub async fn start_with(program: Program, configuration: &str, arguments: &[&str]) -> Self {
        let mut process = Self::begin(program, configuration, arguments);
        process.until_ready().await;
        process
    }

    /// The same, which may not be ready yet.
    pub fn begin(program: Program, configuration: &str, arguments: &[&str]) -> Self {
        Self::begin_in(program, configuration, arguments, &[])
    }

    /// The same with these environment variables.
    pub fn begin_in(program: Program, configuration: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let (folder, log) = folder_and_log(configuration);
        let mut command = serving(program, &folder);
        command.args(arguments).envs(environment.iter().copied());
        Self::spawn(command, log.0.reopen().unwrap(), folder, log)
    }

    /// Starts a proxy on a free port, with its data in its folder, and with this configuration unless that is empty.
    pub fn begin_proxy(
        program: Program,
        configuration: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let (folder, log) = folder_and_log(configuration);
        let mut command = plain(program);
        command.args(["--log-format", "json", "proxy"]);
        if !configuration.is_empty() {
            command.arg(folder.path().join(CONFIGURATION));
        }
        command.args(["--listen", "127.0.0.1:0", "--data"]).arg(folder.path().join(DATA));
        command.args(arguments).envs(environment.iter().copied());
        Self::spawn(command, log.0.reopen().unwrap(), folder, log)
    }

    /// The same with another standard error than its log, which stays empty.
    pub fn begin_on(program: Program, configuration: &str, stderr: impl Into<Stdio>) -> Self {
        let (folder, log) = folder_and_log(configuration);
        Self::spawn(serving(program, &folder), stderr, folder, log)
    }

    fn spawn(mut command: Command, stderr: impl Into<Stdio>, folder: TempDir, log: Log) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).kill_on_drop(true);
        Process { child: command.spawn().unwrap(), command, folder, log }
    }

    /// Runs it again with the same configuration, after its end. It may not be ready yet.
    ///
    /// # Panics
    /// If it has not ended, or can't be run.
    pub fn restart(&mut self) {
        assert_eq!(self.child.id(), None, "it still runs");
        self.child = self.command.spawn().unwrap();
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Its log, over restarts.
    pub fn log(&self) -> String {
        self.log.read()
    }

    /// The URL of its HTTP front; `None` until the log has it.
    pub fn http(&self) -> Option<String> {
        let log = self.log();
        let (_, after) = log.rsplit_once("health and metrics at ")?;
        after.split_once("/metrics").map(|(url, _)| url.to_owned())
    }

    /// The URL at which it holds requests; `None` until the log has it.
    pub fn proxy(&self) -> Option<String> {
        let log = self.log();
        let (_, after) = log.split_once("holds requests at ")?;
        after.split_once('"').map(|(url, _)| url.to_owned())
    }

    /// The folder of a proxy's state.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join(DATA)
    }

    /// Asks it to stop, as a service manager does.
    pub fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Freezes it (SIGSTOP): its connections stay open, and it does nothing.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// The answer of `/readyz` with its status; `None` if there is none soon, as when it is frozen.
    pub async fn readiness(&self) -> Option<(u16, Value)> {
        let asked = http().get(format!("{}/readyz", self.http()?)).timeout(LOOK).send().await.ok()?;
        Some((asked.status().as_u16(), asked.json().await.ok()?))
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        within("the process ends", self.child.wait()).await.unwrap()
    }

    /// Asks it to stop, waits for its end, and keeps its folder until then.
    pub async fn stop(mut self) {
        self.terminate();
        let status = self.ended().await;
        assert!(status.success(), "{status}\n{}", self.log());
        self.folder.close().unwrap();
    }

    /// The id cannot belong to another process: the system reuses it only after the child was
    /// waited for.
    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().expect("it runs")).unwrap();
        signal::kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits until it is ready.
    ///
    /// # Panics
    /// If it does not become ready; the message has its log.
    pub async fn until_ready(&mut self) {
        until("a scheduler process is ready", async || {
            self.check_that_it_runs();
            let ready = http().get(format!("{}/readyz", self.http()?)).send().await.ok()?;
            ready.status().is_success().then_some(())
        })
        .await;
    }

    /// Waits until it holds requests, and returns the URL.
    ///
    /// # Panics
    /// If it does not; the message has its log.
    pub async fn until_it_holds(&mut self) -> String {
        until("the proxy listens", async || {
            self.check_that_it_runs();
            self.proxy()
        })
        .await
    }

    fn check_that_it_runs(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("the process ended: {status}\n{}", self.log());
        }
    }
}
