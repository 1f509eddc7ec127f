//! A real nginx: one on the PATH, or Debian's, kept in the build folder.

use crate::patience::{until, within};
use crate::python::put_in_place;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// A port that was free a moment ago may be somebody else's by the time nginx wants it.
const ATTEMPTS: usize = 5;

/// A running nginx with a folder of its own. Dropping it kills it.
pub struct Nginx {
    _child: Child,
    _folder: TempDir,
    ports: Vec<u16>,
}

/// The program, brought into `build_folder` where there is none; tests give `env!("CARGO_TARGET_TMPDIR")`.
///
/// # Panics
/// If there is none to be had; the message says what to install.
pub async fn program(build_folder: &str) -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain(["/usr/sbin".into()]);
    if let Some(installed) = folders.map(|folder| folder.join("nginx")).find(|nginx| nginx.is_file()) {
        return installed;
    }
    let folder = Path::new(build_folder).join("nginx");
    let program = folder.join("usr/sbin/nginx");
    if !program.is_file() {
        let fresh = tempfile::tempdir_in(build_folder).unwrap();
        unpack(fresh.path()).await;
        put_in_place(fresh, &folder);
    }
    program
}

/// Takes Debian's package apart, without installing it.
async fn unpack(into: &Path) {
    let download = async || command(into, "apt-get", &["--quiet", "download", "nginx"]).await;
    let mut downloaded = download().await;
    if !downloaded.status.success() {
        // A fresh machine has no lists of packages.
        command(into, "apt-get", &["--quiet", "update"]).await;
        downloaded = download().await;
    }
    let errors = String::from_utf8_lossy(&downloaded.stderr);
    assert!(downloaded.status.success(), "apt-get could not bring nginx; install nginx\n{errors}");
    let mut files = std::fs::read_dir(into).unwrap().map(|file| file.unwrap().path());
    let package = files.find(|path| path.extension().is_some_and(|extension| extension == "deb")).unwrap();
    let unpacked = command(into, "dpkg", &["-x", package.to_str().unwrap(), "."]).await;
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
}

async fn command(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    let output = within(program, command.output()).await;
    output.unwrap_or_else(|error| panic!("{program} cannot be run: {error}; install nginx"))
}

impl Nginx {
    /// Starts `program` with what `http` puts into its http block for so many free ports, and waits until it listens there.
    ///
    /// # Panics
    /// If it does not start; the message has its log.
    pub async fn start(program: &Path, ports: usize, http: impl Fn(&[u16]) -> String) -> Self {
        for _ in 0..ATTEMPTS {
            let ports = free_ports(ports);
            if let Some(nginx) = Self::try_start(program, &ports, &http(&ports)).await {
                return nginx;
            }
        }
        panic!("nginx did not get its ports");
    }

    /// The address of the port of this number.
    #[must_use]
    pub fn address(&self, port: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[port]))
    }

    async fn try_start(program: &Path, ports: &[u16], http: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::write(path.join("nginx.conf"), whole(http)).unwrap();
        let log = path.join("error.log");
        let mut command = Command::new(program);
        command.arg("-p").arg(path).arg("-e").arg(&log).args(["-c", "nginx.conf"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let listens = until("nginx listens or ends", async || {
            if child.try_wait().unwrap().is_some() {
                return Some(false);
            }
            let address = (Ipv4Addr::LOCALHOST, *ports.first()?);
            TcpStream::connect(address).await.is_ok().then_some(true)
        })
        .await;
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(listens || said.contains("Address already in use"), "{said}");
        listens.then(|| Nginx { _child: child, _folder: folder, ports: ports.to_vec() })
    }
}

/// One process, so that killing it leaves none behind, with everything that it writes in its own folder.
fn whole(http: &str) -> String {
    format!(
        "daemon off; master_process off; pid nginx.pid;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
         access_log off;\n\
         client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
         keepalive_requests 1000000000;\n\
         {http}\n}}\n"
    )
}

/// All at once, so that they differ.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
