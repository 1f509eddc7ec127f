//! A real nats-server.

use async_nats::jetstream::{self, kv};
use rampmeter_nats_server::{Binary, Options, Server};
use std::path::Path;
use tempfile::TempDir;

/// A server for one test, with an empty store. It ends when it is dropped.
///
/// # Panics
/// If no server is available; the message says what to install.
pub async fn start() -> Server {
    start_with(Options::default()).await
}

/// The same with these options.
///
/// # Panics
/// If no server is available, or it does not start. The message says what to install, or has the
/// end of its log.
pub async fn start_with(options: Options) -> Server {
    let binary = Binary::find().await.unwrap_or_else(|error| panic!("{error}"));
    Server::start(&binary, options).await.unwrap_or_else(|error| panic!("{error}\n{}", error.log().unwrap_or_default()))
}

/// A server with this configuration beside its store, and the folder with the configuration.
///
/// # Panics
/// As [`start_with`].
pub async fn configured(text: &str) -> (TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nats.conf");
    std::fs::write(&file, format!("jetstream {{ store_dir: $NATS_STORE }}\n{text}")).unwrap();
    let options = Options { configuration: Some(file), ..Options::default() };
    (folder, start_with(options).await)
}

/// A plain connection to `server`.
pub async fn connect(server: &Server) -> async_nats::Client {
    async_nats::connect(server.url()).await.unwrap()
}

/// The KV bucket with the state of schedulers that have the default prefix.
pub async fn state_bucket(server: &Server) -> kv::Store {
    bucket_of(&connect(server).await).await
}

/// The same on another connection.
pub async fn bucket_of(client: &async_nats::Client) -> kv::Store {
    jetstream::new(client.clone()).get_key_value("rampmeter").await.unwrap()
}

/// How many times the state has been written.
pub async fn writes(server: &Server) -> u64 {
    let stream = jetstream::new(connect(server).await).get_stream("KV_rampmeter").await.unwrap();
    stream.cached_info().state.last_sequence
}

/// A copy of the server's data. The server restarts for it.
///
/// # Panics
/// If it does not stop or start, or its data cannot be read.
pub async fn back_up(server: &mut Server) -> TempDir {
    let kept = tempfile::tempdir().unwrap();
    server.stop().await.unwrap();
    copy(server.store(), kept.path());
    server.restart().await.unwrap();
    kept
}

/// Restarts `server` with the data of a copy.
///
/// # Panics
/// If it does not stop or start, or its data cannot be written.
pub async fn put_back(server: &mut Server, kept: &TempDir) {
    server.stop().await.unwrap();
    std::fs::remove_dir_all(server.store()).unwrap();
    copy(kept.path(), server.store());
    server.restart().await.unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        match from.is_dir() {
            true => copy(&from, &to),
            false => drop(std::fs::copy(&from, &to).unwrap()),
        }
    }
}
