//! The pinned nats-server, recognised by its hash.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

/// The hashes of the servers in the wheels that `nats-server.txt` pins.
const PINS: &str = include_str!("../nats-server.sha256");

/// Whether the file is a pinned nats-server. It is read, and not run.
pub(crate) async fn is_pinned(path: &Path) -> bool {
    let path: PathBuf = path.to_path_buf();
    let hash = spawn_blocking(move || hash_of(&path)).await;
    hash.map_err(io::Error::other).flatten().is_ok_and(|hash| pins().any(|pin| pin == hash))
}

fn pins() -> impl Iterator<Item = &'static str> {
    PINS.lines().filter_map(|line| line.split_whitespace().next())
}

fn hash_of(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wheel_has_a_server_with_a_hash() {
        let wheels = include_str!("../nats-server.txt").matches("--hash=").count();
        assert_eq!(pins().count(), wheels);
        assert!(pins().all(|pin| pin.len() == 64 && pin.bytes().all(|byte| byte.is_ascii_hexdigit())));
    }

    #[tokio::test]
    async fn no_other_file_is_a_pinned_server() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_pinned(file.path()).await);
        assert!(!is_pinned(Path::new("/no/such/file")).await);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash_of(file.path()).unwrap(), empty);
    }
}
