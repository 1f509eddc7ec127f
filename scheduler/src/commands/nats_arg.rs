//! Where commands that talk to a running scheduler find it.

use crate::config::NatsTable;
use rampmeter_protocol::name::Name;

/// The server and the prefix.
#[derive(Clone, Debug, clap::Args)]
pub struct NatsArg {
    /// The NATS server, as in `nats://user:password@host:4222` or `nats://token@host:4222`, or several of a cluster with commas between them.
    #[arg(
        long,
        value_name = "URL",
        default_value = "nats://127.0.0.1:4222",
        env = "RAMPMETER_NATS",
        hide_env_values = true
    )]
    pub nats: String,
    /// File with NATS credentials.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_CREDENTIALS")]
    pub credentials_file: Option<String>,
    /// First token of all subjects.
    #[arg(long, default_value = "rampmeter", env = "RAMPMETER_PREFIX")]
    pub prefix: Name,
}

impl NatsArg {
    /// The same as a configuration says it.
    pub(super) fn table(&self) -> NatsTable {
        NatsTable {
            url: self.nats.clone(),
            credentials_file: self.credentials_file.clone(),
            prefix: self.prefix.clone(),
            ..NatsTable::default()
        }
    }
}
