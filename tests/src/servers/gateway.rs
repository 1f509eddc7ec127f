//! Real reverse proxies that ask `/check`, with the shipped configurations.

use crate::listening::Listening;
use crate::{nginx, python, repository};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use tokio::process::Command;

/// A kind of gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx with `auth_request`.
    Nginx,
    /// Traefik with `forwardAuth`.
    Traefik,
    /// Envoy with `ext_authz`.
    Envoy,
}

/// The addresses behind a gateway.
#[derive(Clone, Copy, Debug)]
pub struct Behind {
    /// The front of a scheduler.
    pub rampmeter: SocketAddr,
    /// The server.
    pub backend: SocketAddr,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Nginx, Kind::Traefik, Kind::Envoy];

    /// Whether a client whose request passes sees the scheduler's headers about its limits. Traefik
    /// passes headers of an allowed request to the backend alone.
    pub fn shows_limits_to_passing_clients(self) -> bool {
        self != Kind::Traefik
    }

    /// Whether a client sees when to return if there is neither yes nor no. For Envoy a 503 is an
    /// error, and it passes no headers of it.
    pub fn tells_of_errors(self) -> bool {
        self != Kind::Envoy
    }

    /// Whether it reports a client on the same machine by a loopback address. Envoy reports an
    /// address that other machines could use.
    pub fn knows_loopback(self) -> bool {
        self != Kind::Envoy
    }
}

/// Starts a gateway with programs that are downloaded to `build_folder`; tests give
/// `env!("CARGO_TARGET_TMPDIR")`. It listens on one port.
///
/// # Panics
/// If it does not start, or the program is unavailable.
pub async fn start(kind: Kind, build_folder: &str, behind: Behind) -> Listening {
    match kind {
        Kind::Nginx => {
            let program = nginx::program(build_folder).await;
            nginx::start(&program, 1, |ports| nginx(ports[0], behind)).await
        }
        Kind::Traefik => {
            let program = python::packages(build_folder, "gateways").await.join("bin/traefik");
            Listening::start(1, |folder, ports| traefik(&program, folder, ports[0], behind)).await
        }
        Kind::Envoy => {
            let program = python::packages(build_folder, "gateways").await.join("envoy/_bin/envoy");
            Listening::start(1, |folder, ports| envoy(&program, folder, ports[0], behind)).await
        }
    }
}

/// The ports of the scheduler and the server in the shipped configurations.
const SHIPPED: (u16, u16) = (9480, 8080);

/// A shipped configuration with other addresses; each replaced address occurs once in it.
fn shipped(path: &str, addresses: &[(String, String)]) -> String {
    let mut text = repository::file(path).unwrap().text;
    for (shipped, here) in addresses {
        assert_eq!(text.matches(shipped).count(), 1, "{path}: {shipped}");
        text = text.replace(shipped, here);
    }
    text
}

/// Both addresses, shipped and actual, in the notation of `write`.
fn addresses(Behind { rampmeter, backend }: Behind, write: impl Fn(SocketAddr) -> String) -> Vec<(String, String)> {
    let here = [(SHIPPED.0, rampmeter), (SHIPPED.1, backend)];
    let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    here.into_iter().map(|(port, here)| (write(local(port)), write(here))).collect()
}

/// The configuration for nginx that ships.
pub fn nginx(listen: u16, behind: Behind) -> String {
    let mut addresses = addresses(behind, |address| format!("server {address};"));
    addresses.push(("listen 80;".to_owned(), format!("listen {}:{listen};", Ipv4Addr::LOCALHOST)));
    shipped("deploy/nginx/rampmeter.conf", &addresses)
}

fn traefik(program: &Path, folder: &Path, listen: u16, behind: Behind) -> Command {
    let text = shipped("deploy/traefik/rampmeter.yaml", &addresses(behind, |address| address.to_string()));
    std::fs::write(folder.join("rampmeter.yaml"), text).unwrap();
    let mut command = Command::new(program);
    command.arg(format!("--entryPoints.web.address={}:{listen}", Ipv4Addr::LOCALHOST));
    // Without this, Traefik sends usage data to its vendor.
    command.args(["--global.checkNewVersion=false", "--global.sendAnonymousUsage=false"]);
    command.args(["--providers.file.filename=rampmeter.yaml", "--providers.file.watch=false"]);
    command
}

fn envoy(program: &Path, folder: &Path, listen: u16, behind: Behind) -> Command {
    let socket = |ip: IpAddr, port: u16| format!("address: {ip}, port_value: {port} }}");
    let mut addresses = addresses(behind, |address| socket(address.ip(), address.port()));
    addresses.push((socket(Ipv4Addr::UNSPECIFIED.into(), 80), socket(Ipv4Addr::LOCALHOST.into(), listen)));
    std::fs::write(folder.join("rampmeter.yaml"), shipped("deploy/envoy/rampmeter.yaml", &addresses)).unwrap();
    let mut command = Command::new(program);
    command.args(["-c", "rampmeter.yaml", "--concurrency", "1", "--disable-hot-restart", "--log-level", "warn"]);
    command
}
