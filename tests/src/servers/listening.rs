//! Programs that listen on free ports.

use crate::patience::until;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Another program may have taken a port that was free a moment ago.
const ATTEMPTS: usize = 5;

/// A running program with a folder of its own. Dropping it kills it.
pub struct Listening {
    _child: Child,
    _folder: TempDir,
    ports: Vec<u16>,
}

impl Listening {
    /// Starts the command that `command` makes for a folder and this many free ports. Waits until
    /// it listens on the first of them.
    ///
    /// # Panics
    /// If it does not start; the message has its output.
    pub async fn start(ports: usize, command: impl Fn(&Path, &[u16]) -> Command) -> Self {
        for _ in 0..ATTEMPTS {
            if let Some(listening) = Self::try_start(free_ports(ports), &command).await {
                return listening;
            }
        }
        panic!("the program did not get its ports");
    }

    /// The address of the port with this number.
    pub fn address(&self, port: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[port]))
    }

    async fn try_start(ports: Vec<u16>, command: &impl Fn(&Path, &[u16]) -> Command) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = command(folder.path(), &ports);
        let file = std::fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).current_dir(folder.path());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let listens = until("the program listens or ends", async || {
            if child.try_wait().unwrap().is_some() {
                return Some(false);
            }
            let address = (Ipv4Addr::LOCALHOST, *ports.first()?);
            TcpStream::connect(address).await.is_ok().then_some(true)
        })
        .await;
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(listens || said.to_lowercase().contains("address already in use"), "{said}");
        listens.then(|| Listening { _child: child, _folder: folder, ports })
    }
}

/// Finds all ports at once, so that they differ.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
