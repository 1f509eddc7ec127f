//! Reverse proxies that ask `/check`: real ones, with the configurations that ship.

use crate::listening::Listening;
use crate::{nginx, python, repository};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tokio::process::Command;
use tokio::sync::OnceCell;

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

    /// Whether clients whose requests pass see what the scheduler has said of their limits: Traefik
    /// hands headers of a yes to the backend alone.
    #[must_use]
    pub fn tells_who_passes(self) -> bool {
        self != Kind::Traefik
    }

    /// Whether clients see when to come back where nobody can say yes or no: for Envoy a 503 is an
    /// error, of which it says nothing.
    #[must_use]
    pub fn tells_of_errors(self) -> bool {
        self != Kind::Envoy
    }

    /// Whether it calls a client on its own machine by a loopback address: Envoy calls it by one
    /// that others know the machine by.
    #[must_use]
    pub fn knows_loopback(self) -> bool {
        self != Kind::Envoy
    }
}

/// Starts one, with programs that are brought into `build_folder`; tests give
/// `env!("CARGO_TARGET_TMPDIR")`. It listens on one port.
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

/// They are large: tests that begin at once on a fresh machine bring them once.
async fn other(build_folder: &str, path: &str) -> PathBuf {
    static PACKAGES: OnceCell<PathBuf> = OnceCell::const_new();
    PACKAGES.get_or_init(|| python::packages(build_folder, "gateways")).await.join(path)
}

/// The ports that shipped configurations find a scheduler and the server at.
const SHIPPED: (u16, u16) = (9480, 8080);

/// A shipped configuration with other addresses, each of which it has once.
fn shipped(path: &str, addresses: &[(String, String)]) -> String {
    let mut text = repository::file(path).unwrap().text;
    for (shipped, here) in addresses {
        assert_eq!(text.matches(shipped).count(), 1, "{path}: {shipped}");
        text = text.replace(shipped, here);
    }
    text
}

/// Both addresses as they are shipped, and as they are here, each as `write` has it.
fn addresses(Behind { rampmeter, backend }: Behind, write: impl Fn(SocketAddr) -> String) -> Vec<(String, String)> {
    let here = [(SHIPPED.0, rampmeter), (SHIPPED.1, backend)];
    let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    here.into_iter().map(|(port, here)| (write(local(port)), write(here))).collect()
}

/// The configuration that ships for nginx.
#[must_use]
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
    // It would call home.
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
