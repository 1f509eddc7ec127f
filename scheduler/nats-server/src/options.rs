use std::path::PathBuf;

/// How a [`Server`](crate::Server) is to run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The port on 127.0.0.1; 0, the default, takes any free one.
    pub port: u16,
    /// Where `JetStream` keeps its data; `None`, the default, is a folder that goes away with the
    /// server.
    pub store: Option<PathBuf>,
    /// What else the server is told.
    pub configuration: Configuration,
    /// Arguments of nats-server beside those that follow from the rest; they win over a
    /// configuration file.
    pub arguments: Vec<String>,
    /// Environment variables beside those of this process: what a configuration file calls `$NAME`.
    pub environment: Vec<(String, String)>,
    /// Whether Ctrl-C in the terminal leaves the server running, for an owner that has to say
    /// farewell over NATS before it stops the server. By default the server gets the same Ctrl-C,
    /// and ends even if its owner does not.
    pub outlives_interrupt: bool,
}

/// What a server is told beyond its address, its port and its store, which [`Options`] decide in
/// any case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Configuration {
    /// Nothing: `JetStream` acknowledges a write before it is on disk, as NATS does by default.
    #[default]
    Plain,
    /// `JetStream` has every write on disk before it acknowledges it: no loss when the power fails.
    SyncAlways,
    /// A configuration file of nats-server, in which `jetstream` has `store_dir: $NATS_STORE`: a
    /// server refuses to be told its store both there and by an argument, and one that is told
    /// nowhere takes a temporary folder.
    File(PathBuf),
}
