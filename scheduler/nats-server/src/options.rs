use std::path::PathBuf;

/// The options of a [`Server`](crate::Server).
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The port on 127.0.0.1; 0, the default, means any free one.
    pub port: u16,
    /// The folder of `JetStream`'s data; `None`, the default, is a folder that is removed with the
    /// server.
    pub store: Option<PathBuf>,
    /// Further settings of the server.
    pub configuration: Configuration,
    /// Further arguments of nats-server. They override a configuration file.
    pub arguments: Vec<String>,
    /// Further environment variables, which a configuration file refers to as `$NAME`.
    pub environment: Vec<(String, String)>,
    /// Whether the server goes on running after Ctrl-C in the terminal. An owner that still needs
    /// NATS to stop cleanly sets this. By default the server gets the same Ctrl-C, and ends even if
    /// its owner does not.
    pub outlives_interrupt: bool,
}

/// The settings of a server, apart from address, port and store, which [`Options`] always decide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Configuration {
    /// The defaults of NATS: `JetStream` acknowledges a write before it is on disk.
    #[default]
    Plain,
    /// `JetStream` writes to disk before it acknowledges, so that a power failure loses nothing.
    SyncAlways,
    /// A configuration file of nats-server. Its `jetstream` block needs `store_dir: $NATS_STORE`. A
    /// server refuses a store both there and as an argument. Without either it takes a temporary
    /// folder.
    File(PathBuf),
}
