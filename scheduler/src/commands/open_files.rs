//! Files and sockets that this process may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the number to what the system allows: many shells give 1024, which is less than the HTTP connections of a scheduler, and than
/// the workers of a demo, whose connections have both ends in this process. Where that fails, what is too large fails with
/// the system's words.
pub(super) fn allow_many_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, allowed)| setrlimit(Resource::RLIMIT_NOFILE, allowed, allowed));
    if let Err(error) = raised {
        tracing::debug!(%error, "the number of open files stays as it is");
    }
}
