//! Ends a server whose owner was killed.

use std::io;
use std::process::Stdio;

use tokio::process::{Child, Command};

/// Waits for the end of its standard input, which only the owner holds open, and ends the server. A
/// paused server goes on, so that it can end.
const SCRIPT: &str = r#"read -r _; kill "$1"; kill -CONT "$1""#;

/// A process that ends the server if its owner dies without having done so.
///
/// The system closes the owner's end of a pipe even after a `kill -9`. A parent-death signal would
/// need unsafe code, which this workspace forbids. Dropping the guard ends it and leaves the server
/// alone.
#[derive(Debug)]
pub(crate) struct Guard {
    _process: Child,
}

impl Guard {
    /// Guards the server with this process id. It has a process group of its own: a Ctrl-C does not
    /// end it before its owner.
    pub(crate) fn of(server: u32) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "nats-server-guard", &server.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.process_group(0).kill_on_drop(true).spawn()?;
        Ok(Guard { _process: process })
    }
}
