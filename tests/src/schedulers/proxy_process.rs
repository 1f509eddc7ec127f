//! `rampmeter proxy` in a process of its own.

use crate::patience::{until, within};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// A running `rampmeter proxy`. Dropping it kills it.
pub struct ProxyProcess {
    child: Child,
    folder: TempDir,
    url: String,
}

impl ProxyProcess {
    /// Starts it on a free port, with this configuration unless that is empty, and waits until it
    /// listens.
    ///
    /// # Panics
    /// If it does not; the message has its log.
    pub async fn start(program: &str, configuration: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(program);
        command.args(["--log-format", "json", "proxy"]);
        if !configuration.is_empty() {
            let file = folder.path().join("rampmeter.toml");
            std::fs::write(&file, configuration).unwrap();
            command.arg(file);
        }
        command.args(["--listen", "127.0.0.1:0", "--data"]).arg(folder.path().join("data")).args(arguments);
        command.envs(environment.iter().copied()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.kill_on_drop(true).spawn().unwrap();
        let mut process = ProxyProcess { child, folder, url: String::new() };
        process.url = until("the proxy listens", async || process.listens()).await;
        process
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// The folder of its state.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Freezes it.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills it.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        within("the proxy ends", self.child.wait()).await.unwrap()
    }

    fn listens(&mut self) -> Option<String> {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("the proxy ended: {status}\n{}", self.log());
        }
        let log = self.log();
        let (_, after) = log.split_once("holds requests at ")?;
        Some(after.split_once('"')?.0.to_owned())
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.id()).unwrap();
        signal::kill(Pid::from_raw(pid), signal).unwrap();
    }
}
