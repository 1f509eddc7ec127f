//! nginx as a reverse proxy. It is measured beside the proxy of this project, if this machine has
//! it.

use anyhow::Context;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{interval, timeout};

/// How long nginx may take to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(20);

/// A running nginx. Dropping it ends it, its workers too, and removes its folder.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    process: Child,
    _folder: TempDir,
}

impl Nginx {
    /// Starts an nginx in front of `upstream`. Returns `None` if nginx is not installed.
    ///
    /// # Errors
    /// If nginx does not start.
    pub(crate) async fn start(upstream: SocketAddr) -> anyhow::Result<Option<Self>> {
        let Some(program) = installed() else { return Ok(None) };
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, configuration(&folder.path().display().to_string(), address, upstream))?;
        let mut command = Command::new(program);
        command.arg("-p").arg(folder.path()).arg("-c").arg(&file).args(["-e", "stderr"]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let nginx = Nginx { address, process, _folder: folder };
        let listens = async {
            let mut attempts = interval(PAUSE);
            while TcpStream::connect(address).await.is_err() {
                attempts.tick().await;
            }
        };
        timeout(LISTEN_TIMEOUT, listens).await.context("nginx does not listen")?;
        Ok(Some(nginx))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A killed master leaves its workers behind; SIGTERM makes it end them.
        if let Some(id) = self.process.id().and_then(|id| i32::try_from(id).ok()) {
            signal::kill(Pid::from_raw(id), Signal::SIGTERM).ok();
        }
    }
}

fn installed() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain(["/usr/sbin".into()]);
    folders.map(|folder| folder.join("nginx")).find(|program| program.is_file())
}

/// A worker for each processor, and connections that stay.
fn configuration(folder: &str, address: SocketAddr, upstream: SocketAddr) -> String {
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|kind| format!("{kind}_temp_path {folder};"));
    format!(
        "daemon off; worker_processes auto; pid {folder}/pid; error_log stderr emerg;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; keepalive_requests 100000000; {}\n\
         upstream api {{ server {upstream}; keepalive 512; keepalive_requests 100000000; }}\n\
         server {{ listen {address}; location / {{ proxy_pass http://api; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; }} }} }}\n",
        places.concat()
    )
}
