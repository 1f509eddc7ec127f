//! A real nginx: one on the PATH, or Debian's, unpacked in the build folder.

use crate::listening::Listening;
use crate::patience::within;
use crate::python::{alone, put_in_place};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use tokio::process::Command;

/// The program, downloaded to `build_folder` if there is none; tests give
/// `env!("CARGO_TARGET_TMPDIR")`.
///
/// # Panics
/// If it is unavailable; the message says what to install.
pub async fn program(build_folder: &str) -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain(["/usr/sbin".into()]);
    if let Some(installed) = folders.map(|folder| folder.join("nginx")).find(|nginx| nginx.is_file()) {
        return installed;
    }
    let folder = Path::new(build_folder).join("nginx");
    let program = folder.join("usr/sbin/nginx");
    let _alone = alone(&folder).await;
    if !program.is_file() {
        let fresh = tempfile::tempdir_in(build_folder).unwrap();
        unpack(fresh.path()).await;
        put_in_place(fresh, &folder);
    }
    program
}

/// Unpacks Debian's package without installing it.
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

/// Starts `program` with the http block that `http` makes for this many free ports. Waits until it
/// listens there.
///
/// # Panics
/// If it does not start; the message has its log.
pub async fn start(program: &Path, ports: usize, http: impl Fn(&[u16]) -> String) -> Listening {
    Listening::start(ports, |folder, ports| {
        std::fs::write(folder.join("nginx.conf"), whole(&http(ports))).unwrap();
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).args(["-e", "stderr", "-c", "nginx.conf"]);
        command
    })
    .await
}

/// One process, so that a kill leaves none behind. All its files are in its own folder.
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
