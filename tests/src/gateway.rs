//! Reverse proxies that ask `/check`: real ones, with the configurations that ship.

use crate::listening::Listening;
use crate::nginx;
use crate::{python, repository};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx with `auth_request`.
    Nginx,
    /// Traefik with `forwardAuth`.
    Traefik,
    /// Envoy with `ext_authz`.
    Envoy,
}

/// Whom it asks, and whom it lets requests through to.
#[derive(Clone, Copy, Debug)]
pub struct Behind {
    /// The front of a scheduler.
    pub rampmeter: SocketAddr,
    /// The server.
    pub backend: SocketAddr,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Nginx, Kind::Traefik, Kind::Envoy];

    /// Whether clients whose requests pass see what the scheduler has said of their limits: Traefik hands headers of a yes to the
    /// backend alone.
    #[must_use]
    pub fn tells_who_passes(self) -> bool {
        self != Kind::Traefik
    }

    /// Whether clients see when to come back where nobody can say yes or no: for Envoy a 503 is an error, of which it says nothing.
    #[must_use]
    pub fn tells_of_errors(self) -> bool {
        self != Kind::Envoy
    }

    /// Whether it calls a client on its own machine by a loopback address: Envoy calls it by one that others know the machine by.
    #[must_use]
    pub fn knows_loopback(self) -> bool {
        self != Kind::Envoy
    }
}

/// Starts one, with programs that are brought into `build_folder`; tests give `env!("CARGO_TARGET_TMPDIR")`. It listens on one port.
///
/// # Panics
/// If it does not start, or the program is not to be had.
pub async fn start(kind: Kind, build_folder: &str, behind: Behind) -> Listening {
    match kind {
        Kind::Nginx => {
            let program = nginx::program(build_folder).await;
            nginx::start(&program, 1, |ports| nginx(ports[0], behind)).await
        }
        Kind::Traefik => {
            let program = other(build_folder, "bin/traefik").await;
            Listening::start(1, |folder, ports| traefik(&program, folder, ports[0], behind)).await
        }
        Kind::Envoy => {
            let program = other(build_folder, "envoy/_bin/envoy").await;
            Listening::start(1, |folder, ports| envoy(&program, folder, ports[0], behind)).await
        }
    }
}

async fn other(build_folder: &str, path: &str) -> PathBuf {
    python::packages(build_folder, "gateways").await.join(path)
}

/// A shipped configuration with other addresses, each of which it has once.
fn shipped(path: &str, addresses: &[(&str, String)]) -> String {
    let mut text = repository::file(path).unwrap().text;
    for (shipped, here) in addresses {
        assert_eq!(text.matches(shipped).count(), 1, "{path}: {shipped}");
        text = text.replace(shipped, here);
    }
    text
}

/// The configuration that ships for nginx.
#[must_use]
pub fn nginx(listen: u16, Behind { rampmeter, backend }: Behind) -> String {
    let servers = [("server 127.0.0.1:9480;", rampmeter), ("server 127.0.0.1:8080;", backend)];
    let servers = servers.map(|(shipped, here)| (shipped, format!("server {here};")));
    shipped(
        "deploy/nginx/rampmeter.conf",
        &[servers.as_slice(), &[("listen 80;", format!("listen 127.0.0.1:{listen};"))]].concat(),
    )
}

fn traefik(program: &Path, folder: &Path, listen: u16, Behind { rampmeter, backend }: Behind) -> Command {
    let addresses = [("127.0.0.1:9480", rampmeter.to_string()), ("127.0.0.1:8080", backend.to_string())];
    std::fs::write(folder.join("rampmeter.yaml"), shipped("deploy/traefik/rampmeter.yaml", &addresses)).unwrap();
    let mut command = Command::new(program);
    command.arg(format!("--entryPoints.web.address=127.0.0.1:{listen}"));
    // It would call home.
    command.args(["--global.checkNewVersion=false", "--global.sendAnonymousUsage=false"]);
    command.args(["--providers.file.filename=rampmeter.yaml", "--providers.file.watch=false"]);
    command
}

fn envoy(program: &Path, folder: &Path, listen: u16, Behind { rampmeter, backend }: Behind) -> Command {
    let port = |address: SocketAddr| format!("address: 127.0.0.1, port_value: {} }}", address.port());
    let addresses = [
        ("address: 0.0.0.0, port_value: 80 }", format!("address: 127.0.0.1, port_value: {listen} }}")),
        ("address: 127.0.0.1, port_value: 9480 }", port(rampmeter)),
        ("address: 127.0.0.1, port_value: 8080 }", port(backend)),
    ];
    std::fs::write(folder.join("rampmeter.yaml"), shipped("deploy/envoy/rampmeter.yaml", &addresses)).unwrap();
    let mut command = Command::new(program);
    command.args(["-c", "rampmeter.yaml", "--concurrency", "1", "--disable-hot-restart", "--log-level", "warn"]);
    command
}
