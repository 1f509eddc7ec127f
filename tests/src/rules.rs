//! Limits that are changed while schedulers run, as people do it.

use crate::process::{Program, run};
use async_nats::jetstream::{self, kv};
use rampmeter_nats_server::Server;
use tempfile::NamedTempFile;

/// What a command has said: its exit code, and standard output and standard error together.
pub type Said = (Option<i32>, String);

/// `rampmeter apply` with a file of this text, called `rules.toml` in what it says, and these
/// arguments.
///
/// # Panics
/// If it can't be run.
pub async fn apply(program: Program, nats: &Server, text: &str, arguments: &[&str]) -> Said {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    let (code, said) = said(program, nats, &[&["apply", "-f", path], arguments].concat()).await;
    (code, said.replace(path, "rules.toml"))
}

/// `rampmeter limits` with these arguments.
///
/// # Panics
/// If it can't be run.
pub async fn limits(program: Program, nats: &Server, arguments: &[&str]) -> Said {
    said(program, nats, &[&["limits"], arguments].concat()).await
}

async fn said(program: Program, nats: &Server, arguments: &[&str]) -> Said {
    let output = run(program, &[arguments, &["--nats", nats.url()]].concat()).await;
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// The bucket with the rules of schedulers with the usual prefix.
///
/// # Panics
/// If there is none yet.
pub async fn bucket(nats: &Server) -> kv::Store {
    let client = crate::nats::connect(nats).await;
    jetstream::new(client).get_key_value("rampmeter-rules").await.unwrap()
}

/// Writes rules past everything that checks them, and says which revision that is.
///
/// # Panics
/// If the store does not take them.
pub async fn put_by_hand(nats: &Server, text: &str) -> u64 {
    bucket(nats).await.put("rules", text.to_owned().into()).await.unwrap()
}
