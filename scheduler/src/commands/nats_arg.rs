//! Where commands that talk to a running scheduler find it.

use rampmeter_protocol::name::Name;

/// The server and the prefix.
#[derive(Clone, Debug, clap::Args)]
pub struct NatsArg {
    /// The NATS server.
    #[arg(long, value_name = "URL", default_value = "nats://127.0.0.1:4222", env = "RAMPMETER_NATS")]
    pub nats: String,
    /// File with NATS credentials.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_CREDENTIALS")]
    pub credentials_file: Option<String>,
    /// First token of all subjects.
    #[arg(long, default_value = "rampmeter", env = "RAMPMETER_PREFIX")]
    pub prefix: Name,
}
