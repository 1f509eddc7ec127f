//! The arguments by which commands find a running scheduler.

use rampmeter_config::NatsTable;
use rampmeter_nats::tls::{Identity, Tls};
use rampmeter_protocol::name::Name;
use std::path::PathBuf;

/// The NATS server, the credentials there, and the prefixes.
#[derive(Clone, Debug, clap::Args)]
pub struct NatsArg {
    /// The NATS server, such as `nats://user:password@host:4222` or `nats://token@host:4222`;
    /// `tls://` requires encryption. Several of a cluster are separated by commas.
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
    /// The file with the seed of an `NKey`.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_NKEY_FILE", conflicts_with = "credentials_file")]
    pub nkey_file: Option<String>,
    /// The authorities (PEM) that count instead of the system's; requires encryption.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_CA_FILE")]
    pub ca_file: Option<PathBuf>,
    /// The certificate (PEM) of this client; requires encryption.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_CERT_FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,
    /// The private key (PEM) of that certificate.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_KEY_FILE", requires = "cert_file")]
    pub key_file: Option<PathBuf>,
    /// The first token of the subjects that answers come to: one that this user may subscribe to.
    #[arg(long, value_name = "TOKEN", default_value = "_INBOX", env = "RAMPMETER_INBOX_PREFIX")]
    pub inbox_prefix: Name,
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
            nkey_file: self.nkey_file.clone(),
            tls: self.tls(),
            prefix: self.prefix.clone(),
            inbox_prefix: self.inbox_prefix.clone(),
            ..NatsTable::default()
        }
    }

    /// Files for encryption require it, as in a configuration.
    fn tls(&self) -> Tls {
        let identity = self.cert_file.clone().zip(self.key_file.clone());
        let identity = identity.map(|(cert_file, key_file)| Identity { cert_file, key_file });
        Tls { required: self.ca_file.is_some() || identity.is_some(), ca_file: self.ca_file.clone(), identity }
    }
}
