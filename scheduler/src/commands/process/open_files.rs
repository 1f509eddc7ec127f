//! The number of files and sockets that this process may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// How many more this process may open, as far as the system tells.
pub(in crate::commands) fn files_left() -> usize {
    let allowed = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(allowed, _)| allowed);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    usize::try_from(allowed).unwrap_or(usize::MAX).saturating_sub(open)
}

/// Raises the number to the system's maximum. Many shells give 1024, fewer than the HTTP
/// connections of a scheduler. The demo needs more too: both ends of its workers' connections are
/// in this process. If this fails, opening too many files fails later with the system's error.
pub(in crate::commands) fn allow_many_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, allowed)| setrlimit(Resource::RLIMIT_NOFILE, allowed, allowed));
    if let Err(error) = raised {
        tracing::debug!(%error, "the number of open files stays as it is");
    }
}
