//! The bound on files and sockets that this process may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the bound to the system's maximum. Many shells set 1024, too few for a scheduler's HTTP connections or for
/// both ends of the demo's. If this fails, opening too many files fails later with the system's error.
pub fn allow_many_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, allowed)| setrlimit(Resource::RLIMIT_NOFILE, allowed, allowed));
    if let Err(error) = raised {
        tracing::debug!(%error, "the number of open files stays as it is");
    }
}
