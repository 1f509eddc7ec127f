//! Shows the web page of the demo's scheduler in a browser.

use std::process::Stdio;
use tokio::process::Command;

/// The program that opens an address in the user's browser.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens `url`. Returns false if this machine has no such program; the demo then goes on without.
pub(super) fn open(url: &str) -> bool {
    open_with(OPENER, url)
}

fn open_with(program: &str, url: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_machine_without_a_browser_is_told_apart() {
        assert!(!open_with("no-such-program-on-any-machine", "http://127.0.0.1:1/"));
        assert!(open_with("true", "http://127.0.0.1:1/"));
    }
}
