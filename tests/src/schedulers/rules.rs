//! Limits that people change while schedulers run.

use crate::process::{Program, told};
use async_nats::jetstream::{self, kv};
use rampmeter_nats_server::Server;
use tempfile::NamedTempFile;

/// The output of a command: its exit code, and standard output and standard error together.
pub type Said = (Option<i32>, String);

/// `rampmeter apply` with these arguments and a file with this text, which its output calls
/// `rules.toml`.
pub async fn apply(program: Program, nats: &Server, text: &str, arguments: &[&str]) -> Said {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    let (code, said) = said(program, nats, &[&["apply", "-f", path], arguments].concat()).await;
    (code, said.replace(path, "rules.toml"))
}

/// `rampmeter limits` with these arguments.
pub async fn limits(program: Program, nats: &Server, arguments: &[&str]) -> Said {
    said(program, nats, &[&["limits"], arguments].concat()).await
}

async fn said(program: Program, nats: &Server, arguments: &[&str]) -> Said {
    told(program, &[arguments, &["--nats", nats.url()]].concat(), &[]).await
}

/// The bucket with the rules of schedulers that have the default prefix.
pub async fn bucket(nats: &Server) -> kv::Store {
    let client = crate::nats::connect(nats).await;
    jetstream::new(client).get_key_value("rampmeter-rules").await.unwrap()
}

/// Writes rules without any check, and returns their revision.
pub async fn put_by_hand(nats: &Server, text: &str) -> u64 {
    bucket(nats).await.put("rules", text.to_owned().into()).await.unwrap()
}
