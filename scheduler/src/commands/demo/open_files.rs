//! Files and sockets that this process may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the number to what the system allows. A worker's connection has both ends in this process, and many shells
/// give 1024. Where that fails, a fleet that is too large fails with the system's words.
pub(super) fn allow_many() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, allowed)| setrlimit(Resource::RLIMIT_NOFILE, allowed, allowed));
    if let Err(error) = raised {
        tracing::debug!(%error, "the number of open files stays as it is");
    }
}
