//! The arguments by which commands find a running scheduler.

use crate::config::NatsTable;
use rampmeter_protocol::name::Name;

/// The NATS server, the credentials and the prefix.
#[derive(Clone, Debug, clap::Args)]
pub struct NatsArg {
    /// The NATS server, such as `nats://user:password@host:4222` or `nats://token@host:4222`;
    /// several of a cluster are separated by commas.
    #[arg(
        long,
        value_name = "URL",
        default_value = "nats://127.0.0.1:4222",
        env = "RAMPMETER_NATS",
        hide_env_values = true
    )]
    pub nats: String,
    /// The file with NATS credentials.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_CREDENTIALS")]
    pub credentials_file: Option<String>,
    /// The first token of all subjects.
    #[arg(long, default_value = "rampmeter", env = "RAMPMETER_PREFIX")]
    pub prefix: Name,
}

impl NatsArg {
    /// The same arguments as a table of the configuration.
    pub(super) fn table(&self) -> NatsTable {
        NatsTable {
            url: self.nats.clone(),
            credentials_file: self.credentials_file.clone(),
            prefix: self.prefix.clone(),
            ..NatsTable::default()
        }
    }
}
